import { describe, expect, it } from 'vitest'
import type { CommitFacts, Found } from './commit-facts.ts'
import type { CommitStore } from './commit-store.ts'
import { findHead } from './head-search.ts'
import { folderOf } from './versioned-keys.ts'

interface Planted {
  from?: number
  to: number
  hint?: number
  /** Generations that listings don't show. */
  unlisted?: number
  tombstones?: number
}

function storeOf({ from = 1, to, hint, unlisted = 0, tombstones = 0 }: Planted): CommitStore & { asked: string[] } {
  const asked: string[] = []
  return {
    asked,
    hint: async () => hint,
    list: async (folder) => {
      asked.push(`list ${folder}`)
      const all = Array.from({ length: to - from + 1 }, (_, i) => from + i)
      return all.filter((generation) => folderOf(generation) === folder && generation <= to - unlisted)
    },
    read: async (generation): Promise<Found> => {
      asked.push(`read ${generation}`)
      if (generation < from || generation > to) return { is: 'missing' }
      return generation <= tombstones ? { is: 'tombstone' } : { is: 'commit', commit: factsOf(generation) }
    },
  }
}

function factsOf(generation: number): CommitFacts {
  return { generation, digest: `d${generation}`, kind: 'turn', instanceId: 'i', nonce: '', completedAtMs: 0 }
}

describe('the head of a session', () => {
  it.each([1, 2, 998, 999, 1000, 1001, 1999, 2000, 3456])('is found at %d without knowing anything', async (to) => {
    expect(await findHead(storeOf({ to }))).toMatchObject({ is: 'commit', commit: { generation: to } })
  })

  it.each([1, 999, 1000, 1500])('is found from a known generation, %d', async (known) => {
    expect(await findHead(storeOf({ to: 1500 }), known)).toMatchObject({ commit: { generation: 1500 } })
  })

  it('costs one listing and two reads from a known generation of its folder', async () => {
    const store = storeOf({ to: 40 })
    await findHead(store, 38)
    expect(store.asked).toEqual(['list 0', 'read 40', 'read 41'])
  })

  it.each([1, 5, 1000])('is found behind a listing that lags by %d', async (unlisted) => {
    expect(await findHead(storeOf({ to: 1004, unlisted }), 4)).toMatchObject({ commit: { generation: 1004 } })
  })

  it('is none where nothing was ever committed', async () => {
    expect(await findHead(storeOf({ to: 0 }))).toEqual({ is: 'none' })
  })

  it('is forgotten where a known generation is missing', async () => {
    expect(await findHead(storeOf({ to: 0 }), 7)).toEqual({ is: 'forgotten', generation: 7 })
    expect(await findHead(storeOf({ to: 5 }), 7)).toEqual({ is: 'forgotten', generation: 7 })
  })

  it('is found where a hint outlived its commits', async () => {
    expect(await findHead(storeOf({ to: 5, hint: 2300 }))).toMatchObject({ commit: { generation: 5 } })
    expect(await findHead(storeOf({ to: 0, hint: 2300 }))).toEqual({ is: 'none' })
  })

  it('is found when commits land and are reclaimed during the search', async () => {
    const store = storeOf({ to: 9, tombstones: 8 })
    const late = { ...store, list: async () => [3] }
    expect(await findHead(late, 2)).toMatchObject({ commit: { generation: 9 } })
  })

  it('is never a tombstone: the commits above one were deleted by something else', async () => {
    await expect(findHead(storeOf({ to: 9, tombstones: 9 }))).rejects.toMatchObject({ code: 'CORRUPT' })
  })

  it('is CORRUPT when it is damaged, and not where something below it is', async () => {
    const damaged = (at: number): CommitStore => {
      const store = storeOf({ to: 4 })
      const error = Object.assign(new Error('cut'), { code: 'CORRUPT' })
      return { ...store, read: async (n) => (n === at ? { is: 'corrupt', error } : await store.read(n)) }
    }
    await expect(findHead(damaged(4))).rejects.toMatchObject({ code: 'CORRUPT' })
    expect(await findHead(damaged(3), 1)).toMatchObject({ commit: { generation: 4 } })
  })
})
