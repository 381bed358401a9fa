import { decompress } from 'zstd-napi'
import { describe, expect, it } from 'vitest'
import { decodeFooter, encodeFooter, FOOTER_BYTES } from './segment-footer.ts'

const footer = { firstSeq: 5, lastSeq: Number.MAX_SAFE_INTEGER, expandedBytes: 4_000_000 }

describe('the footer of a sealed segment', () => {
  it('comes back from the end of a file', () => {
    expect(decodeFooter(Buffer.concat([Buffer.from('before'), encodeFooter(footer)]))).toEqual(footer)
    expect(encodeFooter(footer)).toHaveLength(FOOTER_BYTES)
  })

  it('expands to nothing for any zstd decoder', () => {
    expect(decompress(encodeFooter(footer))).toHaveLength(0)
  })

  it('is not recognised once any byte of it changed', () => {
    for (let i = 0; i < FOOTER_BYTES; i++) {
      const bytes = encodeFooter(footer)
      bytes[i] = (bytes[i] ?? 0) ^ 1
      expect(decodeFooter(bytes)).toBeUndefined()
    }
    expect(decodeFooter(Buffer.alloc(10))).toBeUndefined()
  })
})
