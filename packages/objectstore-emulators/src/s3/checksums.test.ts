import { describe, expect, it } from 'vitest'
import { checksumAlgorithms } from './checksums.ts'

describe('checksums of "123456789"', () => {
  it.each([
    ['crc32', 'cbf43926'],
    ['crc32c', 'e3069283'],
    ['crc64nvme', 'ae8b14860a799888'],
    ['sha1', 'f7c3bc1d808e04732adf679965ccc34ca7ae3441'],
    ['sha256', '15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225'],
  ])('by %s are the published ones, in one piece and in two', (algorithm, expected) => {
    for (const pieces of [['123456789'], ['1234', '56789']]) {
      const sum = checksumAlgorithms[algorithm]?.()
      for (const piece of pieces) sum?.update(Buffer.from(piece))
      expect(Buffer.from(sum?.digest() ?? '', 'base64').toString('hex')).toBe(expected)
    }
  })
})
