import { CRC32C } from '@google-cloud/storage'
import { describe, expect, it } from 'vitest'
import { Crc32c } from '@nexus/objectstore'
import { base64Of } from './crc32c.ts'

function sumOf(...pieces: Uint8Array[]): string {
  const sum = new Crc32c()
  for (const piece of pieces) sum.update(piece)
  return base64Of(sum)
}

describe('the CRC32C of an object', () => {
  it.each([
    ['', 'AAAAAA=='],
    ['data', 'rth90Q=='],
    ['123456789', '4waSgw=='],
  ])('gives the known sum of %j', (text, expected) => {
    expect(sumOf(Buffer.from(text))).toBe(expected)
  })

  it("agrees with the SDK's, wherever the bytes are cut and however they lie in memory", () => {
    const bytes = Uint8Array.from({ length: 1000 }, (_, i) => (i * 167 + (i >> 3)) & 0xff)
    for (const length of [1, 7, 8, 9, 15, 16, 17, 999]) {
      for (const cut of [0, 1, 3, 8, length]) {
        const whole = bytes.subarray(1, 1 + length)
        const sdk = new CRC32C()
        sdk.update(Buffer.from(whole))
        expect(sumOf(whole.subarray(0, cut), whole.subarray(cut))).toBe(sdk.toString())
      }
    }
  })
})
