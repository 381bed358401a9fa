import { assert, integer, maxSafeNat, nat, oneof, property } from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  commitKey,
  folderKey,
  folderOf,
  hintKey,
  lastOfFolder,
  packKey,
  parseName,
  parsePackFile,
  sessionRoot,
} from './versioned-keys.ts'

const ROOT = sessionRoot('s1')
const generations = oneof(
  integer({ min: 1, max: 5000 }),
  maxSafeNat().map((n) => Math.max(n, 1)),
)

describe('the keys of the versioned layout', () => {
  it('are the documented ones', () => {
    expect(commitKey(ROOT, 1)).toBe('sessions/s1.v/commits/00000000000000000/001')
    expect(commitKey(ROOT, 1234567)).toBe('sessions/s1.v/commits/00000000000001234/567')
    expect(packKey(ROOT, { number: 12, attempt: '00ff00ff00ff00ff', n: 3 })).toBe(
      'sessions/s1.v/packs/00000000000000000012-00ff00ff00ff00ff-3',
    )
    expect(hintKey(ROOT)).toBe('sessions/s1.v/hint')
  })

  it('hold a thousand commits in a folder, and one less in the first', () => {
    expect([folderOf(1), folderOf(999), folderOf(1000), folderOf(1999), folderOf(2000)]).toEqual([0, 0, 1, 1, 2])
    expect([lastOfFolder(0), lastOfFolder(1)]).toEqual([999, 1999])
  })

  it('are taken apart into what they were made of, and lie in their folder', () => {
    assert(
      property(generations, nat({ max: 999_999_999 }), (generation, n) => {
        const key = commitKey(ROOT, generation)
        expect(parseName(key.slice(ROOT.length + 1))).toEqual({ is: 'commit', generation })
        expect(key.startsWith(`${folderKey(ROOT, folderOf(generation))}/`)).toBe(true)
        expect(generation).toBeLessThanOrEqual(lastOfFolder(folderOf(generation)))
        const pack = { number: generation, attempt: '0123456789abcdef', n }
        const file = packKey(ROOT, pack).slice(`${ROOT}/packs/`.length)
        expect(parsePackFile(file)).toEqual(pack)
      }),
    )
  })

  it.each([
    'commits/00000000000000000/000',
    'commits/00000000000000000/1',
    'commits/0/001',
    'commits/09007199254740991/999',
    'commits/00000000000000000/001/x',
    'packs/00000000000000000012-00FF00ff00ff00ff-3',
    'packs/00000000000000000012-00ff00ff00ff00ff-03',
    'packs/00000000000000000000-00ff00ff00ff00ff-3',
    'hint2',
    '',
  ])('are not known when the engine never wrote them: %j', (name) => {
    expect(parseName(name)).toBeUndefined()
  })

  it.each([0, -1, 1.5, 2 ** 53, NaN])('are never made for %d', (generation) => {
    expect(() => commitKey(ROOT, generation)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })
})
