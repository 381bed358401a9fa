import { readFileSync } from 'node:fs'
import { readSession } from '@nexus/independent-reader'
import { describe, expect, it } from 'vitest'
import { decodePack } from '../../src/versioned/format/pack-object.ts'
import { decodeTombstone, encodeTombstone } from '../../src/versioned/format/tombstone.ts'
import { readTree } from './read-tree.ts'
import { CONTENTS, hexOf, smallSession } from './small-session.ts'

// Written once by this code and kept: what a bucket holds today must be read by every later build.
const DIR = new URL('../golden/versioned/', import.meta.url)

function golden(name: string): Buffer {
  return readFileSync(new URL(name, DIR))
}

describe('the bytes of a commit and its pack', () => {
  const { packName } = smallSession()
  const commit = golden('commit.bin')
  const pack = golden('pack.bin')

  it('are read as they were written by an earlier build', () => {
    const { entries, contents } = readTree(commit, { [packName]: pack })
    expect(hexOf(contents)).toEqual(hexOf(CONTENTS))
    expect(entries.map(({ type, path }) => `${type} ${path}`)).toEqual([
      'file context/conversation.jsonl',
      'dir files/empty',
      'file files/large.bin',
      'link files/link',
      'file files/none',
      'file files/raw',
    ])
    expect(entries[1]).toMatchObject({ mode: 0o755 })
    expect(entries[2]).toMatchObject({ mtimeNs: -1n })
    expect(entries[3]).toMatchObject({ target: '../é' })
    expect(entries[5]).toMatchObject({ mtimeNs: 4_102_444_800_000_000_001n })
    expect(decodePack(pack, packName)).toHaveLength(2)
  })

  it('are read by a reader that was written from the page about the format', async () => {
    const objects = new Map([
      ['sessions/s.v/commits/00000000000000000/001', commit],
      [`sessions/s.v/${packName}`, pack],
    ])
    const bucket = {
      get: async (key: string) => objects.get(key),
      list: async (prefix: string) => [...objects.keys()].filter((key) => key.startsWith(`${prefix}/`)),
    }
    const session = await readSession(bucket, 's')
    expect(session?.generation).toBe(1)
    const contents = new Map([...(session?.files ?? [])].map(([path, { content }]) => [path, content]))
    expect(hexOf(contents)).toEqual(hexOf(CONTENTS))
    expect(session?.files.get('context/conversation.jsonl')?.mtimeNs).toBe(1_700_000_000_123_456_789n)
    expect(session?.files.get('files/large.bin')?.mtimeNs).toBe(-1n)
    expect(session?.files.get('files/none')?.mode).toBe(0o777)
    expect(session?.dirs).toEqual(new Map([['files/empty', 0o755]]))
    expect(session?.links).toEqual(new Map([['files/link', '../é']]))
  })
})

describe('the bytes of a tombstone', () => {
  const about = { sessionId: 's', generation: 1234, atMs: 1_767_225_600_000 }

  it('are the same in every build', () => {
    expect(encodeTombstone(about)).toEqual(golden('tombstone.bin'))
  })

  it('say when it was written', () => {
    const bytes = golden('tombstone.bin')
    expect(decodeTombstone(bytes, { object: 'o', ...about })).toBe(about.atMs)
  })

  it('are refused when a bit differs, one is missing, or another commit is meant', () => {
    const bytes = encodeTombstone(about)
    const corrupt = expect.objectContaining({ code: 'CORRUPT', key: 'o' })
    for (let at = 0; at < bytes.length; at++) {
      const flipped = Buffer.from(bytes)
      flipped[at] = (flipped[at] ?? 0) ^ 1
      expect(() => decodeTombstone(flipped, { object: 'o', ...about })).toThrow(corrupt)
      expect(() => decodeTombstone(bytes.subarray(0, at), { object: 'o', ...about })).toThrow(corrupt)
    }
    expect(() => decodeTombstone(bytes, { ...about, object: 'o', sessionId: 'S' })).toThrow(corrupt)
    expect(() => decodeTombstone(bytes, { ...about, object: 'o', generation: 1235 })).toThrow(corrupt)
  })
})
