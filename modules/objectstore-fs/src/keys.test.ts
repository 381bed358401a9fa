import { describe, expect, it } from 'vitest'
import { keySegments } from './keys.ts'

function deep(names: number): string {
  return Array.from({ length: names }, () => 'x'.repeat(99)).join('/')
}

describe('keySegments', () => {
  it('are the names from the bucket down', () => {
    expect(keySegments('/b', '', 'a/b')).toEqual(['a', 'b'])
    expect(keySegments('/b', 'p/q', 'a')).toEqual(['p', 'q', 'a'])
    expect(keySegments('/b', '', '')).toEqual([])
    expect(keySegments('/b', 'p', '')).toEqual(['p'])
  })

  it('hold names of 255 bytes, not of 256, however many characters these are', () => {
    for (const letter of ['n', 'é', '日', '😀']) {
      const bytes = Buffer.byteLength(letter)
      const longest = letter
        .repeat(Math.floor(255 / bytes))
        .padEnd(255 - Math.floor(255 / bytes) * bytes + Math.floor(255 / bytes) * letter.length, 'x')
      expect(Buffer.byteLength(longest)).toBe(255)
      expect(keySegments('/b', '', `a/${longest}/c`)).toEqual(['a', longest, 'c'])
      expect(() => keySegments('/b', '', `a/${longest}x/c`)).toThrow(
        expect.objectContaining({
          name: 'InvalidKeyError',
          key: `a/${longest}x/c`,
          reason: expect.stringContaining('256'),
        }),
      )
    }
  })

  it('refuse a path that no system call takes', () => {
    expect(keySegments('/b', '', deep(40))).toHaveLength(40)
    expect(() => keySegments('/b', '', deep(41))).toThrow(expect.objectContaining({ name: 'InvalidKeyError' }))
    expect(() => keySegments(`/${'b'.repeat(100)}`, '', deep(40))).toThrow(/path of more than 4095 bytes/)
  })
})
