import { describe, expect, it } from 'vitest'
import { prefixEnd } from './kv.ts'

describe('prefixEnd', () => {
  it.each([
    ['', undefined],
    ['a', 'b'],
    ['a\u{10ffff}', 'b'],
    ['\u{10ffff}\u{10ffff}', undefined],
    ['\ud7ff', '\ue000'],
    ['x\uffff', 'x\u{10000}'],
    ['é\0', 'é\u0001'],
  ])('of %j is %j', (prefix, end) => {
    expect(prefixEnd(prefix)).toBe(end)
  })
})
