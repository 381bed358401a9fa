import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { engineTempName } from '@nexus/host'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BlobStore, type BlobInfo } from '../index.ts'

let dir: string

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nexus-sweep-'))
})

afterEach(() => {
  rmSync(dir, { recursive: true, force: true })
})

/** Puts blobs of 100 bytes; the first is the least recently used. */
async function fill(store: BlobStore, count: number): Promise<BlobInfo[]> {
  const blobs: BlobInfo[] = []
  for (let index = 0; index < count; index++) {
    const blob = await store.put(Buffer.alloc(100, index), 'a/b')
    utimesSync(blob.path, 1000 + index, 1000 + index)
    blobs.push(blob)
  }
  return blobs
}

function metaOf(blob: BlobInfo): string {
  return blob.path.replace(/bin$/, 'meta')
}

async function present(store: BlobStore, blobs: BlobInfo[]): Promise<boolean[]> {
  return Promise.all(blobs.map((blob) => store.has(blob.sha256)))
}

describe('sweep', () => {
  it('evicts the least recently used until the rest fits, with their .meta', async () => {
    const store = BlobStore.open(dir, { byteBudget: 250 })
    const blobs = await fill(store, 5)
    expect(await store.sweep()).toEqual({ evicted: 3, freed: 300, overBudgetBytes: 0 })
    expect(await present(store, blobs)).toEqual([false, false, false, true, true])
    expect(readdirSync(dir, { recursive: true }).filter((name) => String(name).endsWith('.meta'))).toHaveLength(2)
    expect(await store.sweep()).toEqual({ evicted: 0, freed: 0, overBudgetBytes: 0 })
  })

  it('evicts nothing without a budget, and everything with one of zero', async () => {
    const blobs = await fill(BlobStore.open(dir), 2)
    expect(await BlobStore.open(dir).sweep()).toEqual({ evicted: 0, freed: 0, overBudgetBytes: 0 })
    const store = BlobStore.open(dir, { byteBudget: 0 })
    expect(await store.sweep()).toEqual({ evicted: 2, freed: 200, overBudgetBytes: 0 })
    expect(await present(store, blobs)).toEqual([false, false])
  })

  it('keeps what was read or put again lately', async () => {
    const store = BlobStore.open(dir, { byteBudget: 200 })
    const blobs = await fill(store, 4)
    await store.get(blobs[0]?.sha256 ?? '')
    await store.put(Buffer.alloc(100, 1))
    await store.sweep()
    expect(await present(store, blobs)).toEqual([true, true, false, false])
  })

  it('reaches a budget that is given to it alone, and refuses one that is no byte count', async () => {
    const store = BlobStore.open(dir)
    const blobs = await fill(store, 4)
    expect(await store.sweep({ byteBudget: 199 })).toEqual({ evicted: 3, freed: 300, overBudgetBytes: 0 })
    expect(await store.totalBytes()).toBe(100)
    expect(await present(store, blobs)).toEqual([false, false, false, true])
    await expect(store.sweep({ byteBudget: -1 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  it('never evicts what canEvict keeps, even over budget', async () => {
    const keep = new Set<string>()
    const store = BlobStore.open(dir, { byteBudget: 0, canEvict: (sha256) => Promise.resolve(!keep.has(sha256)) })
    const blobs = await fill(store, 3)
    keep.add(blobs[0]?.sha256 ?? '').add(blobs[1]?.sha256 ?? '')
    expect(await store.sweep()).toEqual({ evicted: 1, freed: 100, overBudgetBytes: 200 })
    expect(await present(store, blobs)).toEqual([true, true, false])
  })

  it('spares a blob that is used while the sweep thinks about it', async () => {
    const store: BlobStore = BlobStore.open(dir, {
      byteBudget: 0,
      // A clock that stands still: the mtime alone would not show the use.
      clock: { now: () => 1_000_000 },
      canEvict: async () => {
        await store.put(Buffer.alloc(100, 0))
        await store.get(blobs[1]?.sha256 ?? '')
        return true
      },
    })
    const blobs = await fill(store, 3)
    for (const { path } of blobs) utimesSync(path, 1000, 1000)
    await store.sweep()
    expect(await present(store, blobs)).toEqual([true, true, false])
  })

  it('spares a blob that another process has touched meanwhile', async () => {
    const blobs: BlobInfo[] = []
    const store = BlobStore.open(dir, {
      byteBudget: 0,
      canEvict: () => {
        for (const { path } of blobs) utimesSync(path, 9000, 9000)
        return true
      },
    })
    blobs.push(...(await fill(store, 2)))
    expect(await store.sweep()).toEqual({ evicted: 0, freed: 0, overBudgetBytes: 200 })
  })

  it('removes temp files of dead processes, in the shards too, and leaves those of live ones', async () => {
    const store = BlobStore.open(dir)
    const { path } = await store.put(Buffer.from('x'))
    const mine = engineTempName()
    const deadPid = spawnSync('true').pid
    const ofProcess = (pid: number): string => {
      return mine.replace(/^(\.nexus-tmp-[0-9a-f]{8}).*$/, `$1-${pid.toString(36)}-0123456789ab0`)
    }
    const ofDead = ofProcess(deadPid)
    const ofLive = ofProcess(process.ppid)
    const ofOtherHost = ofLive.replace(/^\.nexus-tmp-[0-9a-f]{8}/, '.nexus-tmp-00000000')
    const shard = join(path, '..')
    for (const where of [dir, shard]) {
      for (const name of [mine, ofDead, ofLive, ofOtherHost]) writeFileSync(join(where, name), 'x')
    }
    await store.sweep()
    for (const where of [dir, shard]) {
      const left = readdirSync(where).filter((name) => name.startsWith('.nexus-tmp-'))
      expect(left.toSorted()).toEqual([mine, ofLive, ofOtherHost].toSorted())
    }
  })

  it('removes a temp file of another host when nobody has written to it for a day', async () => {
    const store = BlobStore.open(dir)
    const temp = join(dir, '.nexus-tmp-00000000-1-abc0')
    writeFileSync(temp, 'x')
    await store.sweep()
    expect(existsSync(temp)).toBe(true)
    utimesSync(temp, Date.now() / 1000 - 90_000, Date.now() / 1000 - 90_000)
    await store.sweep()
    expect(existsSync(temp)).toBe(false)
  })

  it('removes a .meta that lost its .bin a day ago, not one that may be waiting for it', async () => {
    const store = BlobStore.open(dir)
    const old = await store.put(Buffer.from('old'))
    const fresh = await store.put(Buffer.from('fresh'))
    for (const { path } of [old, fresh]) rmSync(path)
    utimesSync(metaOf(old), 1000, 1000)
    await store.sweep()
    expect([existsSync(metaOf(old)), existsSync(metaOf(fresh))]).toEqual([false, true])
  })

  it('touches no file that is not its own', async () => {
    const store = BlobStore.open(dir, { byteBudget: 0 })
    const { path, sha256 } = await store.put(Buffer.from('x'))
    const shard = join(path, '..')
    const strangers = [
      join(dir, 'README'),
      join(shard, 'notes.bin'),
      join(shard, `${sha256}.bin.bak`),
      join(dir, `${sha256}.bin`),
    ]
    for (const stranger of strangers) {
      writeFileSync(stranger, 'x')
      utimesSync(stranger, 1, 1)
    }
    expect(await store.sweep()).toEqual({ evicted: 1, freed: 1, overBudgetBytes: 0 })
    expect(strangers.map((stranger) => existsSync(stranger))).toEqual([true, true, true, true])
  })
})
