import { describe, expect, it } from 'vitest'
import type { CommitStore } from './commit-store.ts'
import { lowestKept, mayName, packsBelowClaim, takeAway, victimsBelow, victimsOfBarrier } from './reclaim.ts'
import { packFile, type PackName } from './versioned-keys.ts'

const pack = (number: number): PackName => ({ number, attempt: '0'.repeat(16), n: 0 })
const numbers = (packs: readonly PackName[]): number[] => packs.map(({ number }) => number)
const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1)
const DAY = 86_400_000

/** One commit a day, the newest of them now. */
function daily(head: number, tombstones = 0): CommitStore {
  return {
    hint: async () => undefined,
    list: async () => [],
    read: async (generation) =>
      generation <= tombstones
        ? { is: 'tombstone' }
        : {
            is: 'commit',
            commit: {
              generation,
              digest: '',
              kind: 'turn',
              instanceId: '',
              nonce: '',
              completedAtMs: (generation - head) * DAY,
            },
          },
  }
}

describe('what reclaim may take', () => {
  it('leaves commits that the lowest kept one takes payload from, and everything above them', () => {
    const containers = { lowestCommit: 7, packs: new Set<string>() }
    expect(victimsBelow({ kept: 10, containers, unburied: upTo(9), packs: [] }).commits).toEqual(upTo(6))
  })

  it('never reaches the lowest kept commit itself', () => {
    const containers = { lowestCommit: 12, packs: new Set<string>() }
    expect(victimsBelow({ kept: 10, containers, unburied: upTo(12), packs: [] }).commits).toEqual(upTo(9))
  })

  it('leaves packs that are named, and those that may yet be', () => {
    const packs = [pack(1), pack(36), pack(37)]
    const containers = { lowestCommit: 100, packs: new Set([packFile(pack(1))]) }
    expect(numbers(victimsBelow({ kept: 100, containers, unburied: [], packs }).packs)).toEqual([36])
  })

  it('agrees with what a commit may name: a pack that goes can be named by none from the lowest kept on', () => {
    const kept = 150
    const containers = { lowestCommit: kept, packs: new Set<string>() }
    const { packs } = victimsBelow({ kept, containers, unburied: [], packs: upTo(200).map(pack) })
    expect(packs).toEqual(
      upTo(200)
        .map(pack)
        .filter((each) => !mayName(each, kept)),
    )
  })

  it('is everything below a removal, packs of its own number too, and nothing of what was created after', () => {
    const { commits, packs } = victimsOfBarrier({ generation: 5, digest: '' }, new Set(), {
      unburied: upTo(8),
      packs: upTo(8).map(pack),
    })
    expect(commits).toEqual([1, 2, 3, 4])
    expect(numbers(packs)).toEqual([1, 2, 3, 4, 5])
  })

  it('is every pack up to a claim made for it that no kept commit names', () => {
    const packs = packsBelowClaim({ generation: 5, digest: '' }, new Set([packFile(pack(3))]), upTo(6).map(pack))
    expect(numbers(packs)).toEqual([1, 2, 4, 5])
  })

  it('is taken in bounded steps, commits first', async () => {
    const done: string[] = []
    const store = {
      ...daily(1),
      containers: async () => undefined,
      unburied: async () => [],
      packs: async () => [],
      bury: async (generation: number) => void done.push(`bury ${generation}`),
      deletePack: async ({ number }: PackName) => void done.push(`delete ${number}`),
    }
    expect(await takeAway(store, { commits: [1, 2], packs: [pack(1), pack(2)] }, 3)).toBe(3)
    expect(done).toEqual(['bury 1', 'bury 2', 'delete 1'])
  })
})

describe('the lowest generation that is kept', () => {
  const policy = { generations: 64, ageMs: 7 * DAY, atMost: 1000 }

  it('is never nearer to the head than the distance, however old the commits', async () => {
    expect(await lowestKept(daily(500), 500, { policy, nowMs: 9000 * DAY })).toBe(436)
  })

  it('is bounded by the number of commits, however young they are', async () => {
    expect(await lowestKept(daily(5000), 5000, { policy, nowMs: -4999 * DAY })).toBe(4001)
  })

  it('keeps what is young, and asks for few headers', async () => {
    const kept = await lowestKept(daily(500), 500, { policy: { ...policy, ageMs: 300 * DAY }, nowMs: 0 })
    expect(kept).toBeLessThanOrEqual(200)
    expect(kept).toBeGreaterThan(160)
  })

  it('is none in a young session', async () => {
    expect(await lowestKept(daily(65), 65, { policy, nowMs: 9000 * DAY })).toBeUndefined()
    expect(await lowestKept(daily(300), 300, { policy, nowMs: -299 * DAY })).toBeUndefined()
  })

  it('passes over what an earlier run took away', async () => {
    expect(await lowestKept(daily(500, 300), 500, { policy, nowMs: 0 })).toBe(436)
  })
})
