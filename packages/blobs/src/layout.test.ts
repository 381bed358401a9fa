import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { blobPaths, encodeMeta, mediaTypeFault, parseMeta } from './layout.ts'

describe('the .meta file', () => {
  it('gives back every media type that is allowed, and the size', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.nat({ max: Number.MAX_SAFE_INTEGER }), (mediaType, sizeBytes) => {
        fc.pre(mediaTypeFault(mediaType) === undefined)
        expect(parseMeta(encodeMeta(mediaType, sizeBytes))).toEqual({ mediaType, sizeBytes })
      }),
    )
  })

  it('counts as absent when it was cut anywhere or filled with zeros', () => {
    const whole = encodeMeta('application/pdf', 65_536)
    for (let length = 0; length < whole.length; length++) {
      expect(parseMeta(whole.slice(0, length))).toBeUndefined()
      expect(parseMeta(whole.slice(0, length).padEnd(whole.length, '\0'))).toBeUndefined()
    }
  })

  it('is two lines', () => {
    expect(encodeMeta('image/png', 12)).toBe('image/png\n12\n')
  })
})

describe('mediaTypeFault', () => {
  it('refuses what could end or forge a line', () => {
    for (const bad of ['a\nb', 'a\r', '\0', '\u007f', '\ud83d', 'x'.repeat(1025), 1, null]) {
      expect(mediaTypeFault(bad)).toBeTypeOf('string')
    }
    for (const good of ['', 'text/plain; charset=utf-8', 'image/svg+xml', 'x/ünï']) {
      expect(mediaTypeFault(good)).toBeUndefined()
    }
  })
})

describe('blobPaths', () => {
  it('shards by the first two digits', () => {
    const sha256 = `ab${'0'.repeat(62)}`
    expect(blobPaths('/d', sha256)).toEqual({
      shard: '/d/ab',
      bin: `/d/ab/${sha256}.bin`,
      meta: `/d/ab/${sha256}.meta`,
    })
  })
})
