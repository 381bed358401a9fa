import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { blobUri, parseBlobRef, parseBlobUri } from './blob-uri.ts'

const digest = fc.stringMatching(/^[0-9a-f]{64}$/)

describe('parseBlobUri', () => {
  it('gives back the digest of every uri it made', () => {
    fc.assert(
      fc.property(digest, (sha256) => {
        expect(parseBlobUri(blobUri(sha256))).toBe(sha256)
      }),
    )
  })

  it('refuses whatever is not the scheme and 64 lowercase hex digits', () => {
    const hex = 'a'.repeat(64)
    const bad = [
      hex,
      '',
      'nexus-blob:',
      `nexus-blob:${hex}a`,
      `nexus-blob:${hex.slice(1)}`,
      `nexus-blob:${hex.toUpperCase()}`,
      `NEXUS-BLOB:${hex}`,
      `nexus-blob:${hex}\n`,
      ` nexus-blob:${hex}`,
      `nexus-blob:../${hex.slice(3)}`,
      `nexus-blob:${hex}/../../etc/passwd`,
      `nexus-blob:${'0x' + hex.slice(2)}`,
      undefined,
      null,
      {},
    ]
    for (const uri of bad) {
      expect(() => parseBlobUri(uri as string)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    }
  })

  it('lets no text through that could name another path', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(() => parseBlobRef(`nexus-blob:${text}`)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
      }),
    )
  })
})

describe('parseBlobRef', () => {
  it('takes a bare digest or a uri', () => {
    const hex = '0'.repeat(64)
    expect(parseBlobRef(hex)).toBe(hex)
    expect(parseBlobRef(blobUri(hex))).toBe(hex)
    expect(() => parseBlobRef(`${hex}.bin`)).toThrow(/names no blob/)
  })
})
