import { describe, expect, it } from 'vitest'
import { compareFingerprints } from './compare.ts'
import { emptyFingerprint, type Fingerprint } from './fingerprint.ts'

function fingerprint(change: Partial<Fingerprint> = {}): Fingerprint {
  return { ...emptyFingerprint(), turns: 2, files: { 'a.md': '0600 1 x' }, ...change }
}

describe('comparing two hosts', () => {
  it('finds equal what is equal', () => {
    expect(compareFingerprints(fingerprint(), fingerprint()).every(({ ok }) => ok)).toBe(true)
  })

  it.each([
    ['a turn too few', { turns: 1 }],
    ['another conversation', { history: 'other' }],
    ['a file that is missing', { files: {} }],
    ['a file too many', { files: { 'a.md': '0600 1 x', 'b.md': '0600 1 x' } }],
    ['a file with another mode', { files: { 'a.md': '0644 1 x' } }],
    ['a blob too many', { blobs: { 'nexus-blob:1': 'x' } }],
    ['other rows', { tables: { ...emptyFingerprint().tables, turns: '1 rows x' } }],
  ])('notices %s', (_what, change) => {
    expect(compareFingerprints(fingerprint(), fingerprint(change)).filter(({ ok }) => !ok)).toHaveLength(1)
  })
})
