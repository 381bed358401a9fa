import { describe, expect, it } from 'vitest'
import { crc32c, Crc32c } from './crc32c.ts'

describe('crc32c', () => {
  // RFC 3720, B.4
  it.each([
    [Buffer.alloc(0), 0],
    [Buffer.from('123456789'), 0xe3069283],
    [Buffer.alloc(32), 0x8a9136aa],
    [Buffer.alloc(32, 0xff), 0x62a8ab43],
    [Buffer.from(Array.from({ length: 32 }, (_, i) => i)), 0x46dd794e],
  ])('gives the known sum of %j', (bytes, sum) => {
    expect(crc32c(bytes)).toBe(sum)
  })

  it('is the same wherever the bytes are cut and however they lie in memory', () => {
    const bytes = Uint8Array.from({ length: 100 }, (_, i) => (i * 167) & 0xff)
    for (const offset of [0, 1, 3]) {
      const whole = bytes.subarray(offset)
      for (let cut = 0; cut <= whole.length; cut++) {
        const sum = new Crc32c()
        sum.update(whole.subarray(0, cut))
        sum.update(whole.subarray(cut))
        expect(sum.value).toBe(crc32c(Buffer.from(whole)))
      }
    }
  })
})
