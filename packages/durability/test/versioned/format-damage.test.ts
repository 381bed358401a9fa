import { describe, expect, it } from 'vitest'
import { DamagedObjectError } from '../../src/versioned/format/bytes/damage.ts'
import { decodeLeaf, encodeLeaf } from '../../src/versioned/format/leaf-page.ts'
import { decodePack } from '../../src/versioned/format/pack-object.ts'
import { buildPack, ChunkPile } from './build-commit.ts'
import { readTree } from './read-tree.ts'
import { CONTENTS, smallSession } from './small-session.ts'

const { commit, pack, packName } = smallSession()

/** Every way in which a single byte or a neighbouring pair goes wrong, with its name. */
function* damaged(bytes: Buffer): Generator<[string, Buffer]> {
  for (let at = 0; at < bytes.length; at++) {
    yield [`cut at ${at}`, bytes.subarray(0, at)]
    yield [`without byte ${at}`, Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)])]
    yield [`twice byte ${at}`, Buffer.concat([bytes.subarray(0, at + 1), bytes.subarray(at)])]
    for (const bit of [0x01, 0x80]) yield [`byte ${at} ^ ${bit}`, changed(bytes, at, (bytes[at] ?? 0) ^ bit)]
    const [first, second] = [bytes[at] ?? 0, bytes[at + 1] ?? 0]
    if (at + 1 < bytes.length && first !== second) {
      yield [`bytes ${at} and ${at + 1} swapped`, changed(changed(bytes, at, second), at + 1, first)]
    }
  }
  yield ['one more', Buffer.concat([bytes, Buffer.alloc(1)])]
}

function changed(bytes: Buffer, at: number, value: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at] = value
  return copy
}

function damageOf(run: () => unknown, name: string): DamagedObjectError | undefined {
  try {
    run()
    return undefined
  } catch (error) {
    // Anything else than damage, named as such, fails the test with its own trace.
    if (!(error instanceof DamagedObjectError)) throw new Error(name, { cause: error })
    return error
  }
}

/** Names of the damages after which something else was read than was written. */
function misread(bytes: Buffer, read: (each: Buffer) => ReturnType<typeof readTree>): string[] {
  const names: string[] = []
  for (const [name, each] of damaged(bytes)) {
    let found: ReturnType<typeof readTree> | undefined
    damageOf(() => (found = read(each)), name)
    for (const [path, content] of found?.contents ?? []) {
      if (CONTENTS.get(path)?.equals(content) !== true) names.push(`${name}: ${path}`)
    }
  }
  return names
}

/** Names of the damages that aren't found, or not with a range of the object. */
function unfound(bytes: Buffer, object: string, read: (each: Buffer) => unknown): string[] {
  const names: string[] = []
  for (const [name, each] of damaged(bytes)) {
    const {
      object: named,
      offset,
      length,
    } = damageOf(() => read(each), name)?.range ?? { object: '', offset: 0, length: 0 }
    if (named !== object || offset + length > each.length) names.push(name)
  }
  return names
}

describe('damage', () => {
  it('anywhere in a commit that is read whole is found, and names the object and a range in it', () => {
    const read = (bytes: Buffer): unknown => readTree(bytes, { [packName]: pack })
    expect(unfound(commit, 'commits/00000000000000000/001', read)).toEqual([])
  })

  it('anywhere in a commit that is read by ranges gives what was written, or is found', () => {
    expect(misread(commit, (bytes) => readTree(bytes, { [packName]: pack }, 'ranges'))).toEqual([])
  })

  it('anywhere in a pack gives what was written, or is found', () => {
    expect(misread(pack, (bytes) => readTree(commit, { [packName]: bytes }))).toEqual([])
  })

  it('anywhere in a pack is found by its table of contents, with the range', () => {
    const pile = new ChunkPile(1, 4)
    pile.add(Buffer.from('first chunk'))
    pile.add(Buffer.alloc(5000, 'second'))
    const bytes = buildPack(pile)
    expect(decodePack(bytes, 'p')).toEqual(pile.items)
    expect(unfound(bytes, 'p', (each) => decodePack(each, 'p'))).toEqual([])
    const flipped = damageOf(() => decodePack(changed(bytes, 6, 0), 'p'), 'a chunk')
    expect(flipped?.range).toEqual({ object: 'p', offset: 4, length: 11 })
  })

  it('of an expanded page is told from any other fault', () => {
    const { entries } = readTree(commit, { [packName]: pack })
    const page = encodeLeaf(entries)
    const range = { object: 'o', offset: 5, length: 6 }
    expect(decodeLeaf(page, range)).toEqual(entries)
    for (const [name, bytes] of damaged(page)) damageOf(() => decodeLeaf(bytes, range), name)
  })
})
