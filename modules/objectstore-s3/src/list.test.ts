import { describe, expect, it } from 'vitest'
import { decodeKey } from './list.ts'

describe('a key of an encoded listing', () => {
  it.each([
    ['a%2Bb', 'a+b'],
    ['a+b', 'a b'],
    ['a%20b', 'a b'],
    ['a%252Bb', 'a%2Bb'],
    ['caf%C3%A9/x', 'caf\u00e9/x'],
    ['new%0Aline%04', 'new\nline\u0004'],
    ['not%FFutf8', 'not\ufffdutf8'],
  ])('%s is %j', (encoded, key) => {
    expect(decodeKey(encoded)).toBe(key)
  })
})
