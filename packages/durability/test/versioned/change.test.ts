import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { readSession } from '@nexus/independent-reader'
import { describe, expect, it } from 'vitest'
import {
  collectGarbage,
  type CollectedSession,
  type GarbageOptions,
  purgeHistory,
  removeSession,
  repairSession,
  restoreSession,
  sessionHistory,
  verifyGeneration,
} from '../../src/versioned/change/public.ts'
import { commitKey } from '../../src/versioned/core/versioned-keys.ts'
import { TOMBSTONE_BYTES } from '../../src/versioned/format/tombstone.ts'
import { newStore } from '../memory-store.ts'
import { TestHost } from '../test-host.ts'
import { bucketOf } from './session-fixture.ts'
import { treeListing } from './tree-listing.ts'

const DAY_MS = 86_400_000

/** A session of three turns whose payload is too large for commits, and whose run has ended. */
async function ended(options: ConstructorParameters<typeof TestHost>[0] = {}): Promise<TestHost> {
  const host = await TestHost.boot({ layoutName: 'versioned', ...options })
  for (const turn of ['t1', 't2', 't3']) {
    await host.turn(turn, () => host.write('files/large', randomBytes(1_500_000).toString('base64')))
  }
  await host.stop()
  return host
}

const storeOf = ({ backend, clock }: TestHost): ReturnType<typeof newStore>['store'] =>
  newStore({ of: backend, clock }).store

function keysOf({ backend }: TestHost, what: 'commits' | 'packs'): string[] {
  return [...backend.objects.keys()].filter((key) => key.startsWith(`sessions/s1.v/${what}/`)).toSorted()
}

function buriedIn({ backend }: TestHost): number[] {
  const commits = [...backend.objects].filter(([key]) => key.startsWith('sessions/s1.v/commits/'))
  const buried = commits.filter(([, { bytes }]) => bytes.length === TOMBSTONE_BYTES)
  return buried.map(([key]) => Number(key.slice(-3))).toSorted((a, b) => a - b)
}

async function collect(host: TestHost, options: GarbageOptions = {}): Promise<CollectedSession[]> {
  return await collectGarbage(storeOf(host), { clock: host.clock, ...options })
}

describe('a purge', () => {
  it('leaves the newest tree and nothing else, and the session goes on from it', async () => {
    const host = await ended()
    const head = keysOf(host, 'commits').length
    const before = keysOf(host, 'packs')
    expect(before.length).toBeGreaterThan(2)
    const purged = await purgeHistory(storeOf(host), 's1', { clock: host.clock })
    expect(purged).toMatchObject({ generation: head + 1, removed: head + before.length })
    expect(buriedIn(host)).toEqual(Array.from({ length: head }, (_, at) => at + 1))
    expect(keysOf(host, 'packs').filter((key) => before.includes(key))).toEqual([])
    const store = storeOf(host)
    expect(await sessionHistory(store, 's1')).toMatchObject([{ generation: head + 1, kind: 'repack' }])
    const to = join(host.disk, 'restored')
    await expect(restoreSession(store, 's1', { generation: head, to })).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('reclaimed') as string,
    })
    await restoreSession(store, 's1', { to })
    expect(treeListing(to)).toContain(treeListing(host.dir).find((line) => line.startsWith('files/large')))
    const again = await TestHost.boot({ layoutName: 'versioned', disk: host.disk, backend: host.backend })
    await again.turn('t4')
    await again.stop()
    expect((await readSession(bucketOf(host.backend), 's1'))?.files.get('files/turn.txt')?.content.toString()).toBe(
      't4',
    )
  })

  it('refuses an owner that looks live, and fences it when it is forced', async () => {
    const host = await TestHost.boot({ layoutName: 'versioned' })
    await host.turn('t1')
    const options = { clock: host.clock }
    const store = storeOf(host)
    host.backend.faults.heal()
    const before = keysOf(host, 'commits')
    // The run is of this very process, which a tool would be told from by its instance.
    await expect(purgeHistory(store, 's1', options)).rejects.toMatchObject({ code: 'LOCKED' })
    expect(keysOf(host, 'commits')).toEqual(before)
    await purgeHistory(store, 's1', { ...options, force: true })
    await host.turn('t2')
    expect(host.seen('session.owner.lost')).toHaveLength(1)
    await host.kill()
  })
})

describe('a removal', () => {
  it('says so in the last number, takes everything below away, and is met by readers', async () => {
    const host = await ended()
    const store = storeOf(host)
    const { generation } = await removeSession(store, 's1', { clock: host.clock })
    expect(buriedIn(host)).toEqual(Array.from({ length: generation - 1 }, (_, at) => at + 1))
    expect(keysOf(host, 'packs')).toEqual([])
    await expect(sessionHistory(store, 's1')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('was removed at') as string,
    })
    // Again it is the same removal.
    expect(await removeSession(store, 's1', { clock: host.clock })).toEqual({ generation, removed: 0 })
    await expect(removeSession(store, 'other', {})).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('is made once, whatever becomes of the answers', async () => {
    const host = await ended()
    const { backend } = host
    const put = backend.putIfAbsent?.bind(backend)
    let lost = 0
    backend.putIfAbsent = async (...args) => {
      const created = await put?.(...args)
      if (lost++ === 0) throw new Error('the connection was reset')
      return created
    }
    const head = keysOf(host, 'commits').length
    const run = { isSettled: false }
    const removing = removeSession(storeOf(host), 's1', { clock: host.clock }).finally(() => (run.isSettled = true))
    while (!run.isSettled) {
      await new Promise((resolve) => setImmediate(resolve))
      await host.clock.advance(100)
    }
    expect(await removing).toMatchObject({ generation: head + 1 })
    expect(keysOf(host, 'commits')).toHaveLength(head + 1)
  })
})

describe('garbage', () => {
  it('of a removed session that arrived late is swept, and the session forgotten when it is told to', async () => {
    const host = await ended()
    await removeSession(storeOf(host), 's1', { clock: host.clock })
    const late = 'sessions/s1.v/packs/00000000000000000002-0123456789abcdef-0'
    host.backend.objects.set(late, { bytes: Buffer.from('late'), modTime: new Date() })
    expect(await collect(host, { dryRun: true })).toMatchObject([{ id: 's1', packs: 1 }])
    expect(host.backend.objects.has(late)).toBe(true)
    expect(await collect(host)).toMatchObject([{ id: 's1', packs: 1 }])
    expect(host.backend.objects.has(late)).toBe(false)
    expect(await collect(host, { forgetRemovedMs: 30 * DAY_MS })).toEqual([])
    await host.clock.advance(31 * DAY_MS)
    expect(await collect(host, { forgetRemovedMs: 30 * DAY_MS })).toMatchObject([{ id: 's1', forgotten: true }])
    expect([...host.backend.objects.keys()].filter((key) => key.startsWith('sessions/s1.v'))).toEqual([])
  })

  it('is a session whose time is over', async () => {
    const host = await ended({ ttlMs: DAY_MS })
    expect(await collect(host)).toEqual([])
    await host.clock.advance(2 * DAY_MS)
    expect(await collect(host, { dryRun: true })).toMatchObject([{ id: 's1', ended: 'expired' }])
    expect(await collect(host)).toMatchObject([{ id: 's1', ended: 'expired' }])
    await expect(sessionHistory(storeOf(host), 's1')).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('is a prefix with packs and no commit, seven days later, and no sooner', async () => {
    const host = await ended()
    for (const key of keysOf(host, 'commits')) host.backend.objects.delete(key)
    host.backend.objects.delete('sessions/s1.v/hint')
    const modTime = new Date(host.clock.now())
    for (const key of keysOf(host, 'packs')) host.backend.objects.set(key, { bytes: Buffer.from('x'), modTime })
    expect(await collect(host)).toEqual([])
    await host.clock.advance(8 * DAY_MS)
    const late = keysOf(host, 'packs')[0] as string
    host.backend.objects.set(late, { bytes: Buffer.from('x'), modTime: new Date(host.clock.now()) })
    expect(await collect(host)).toEqual([])
    host.backend.objects.set(late, { bytes: Buffer.from('x'), modTime })
    expect(await collect(host)).toMatchObject([{ id: 's1', ended: 'orphan' }])
    // A host that stood still at its first commit finds the number taken.
    expect(host.backend.objects.has(commitKey('sessions/s1.v', 1))).toBe(true)
  })

  it('behind a claim are packs that nothing kept names, also young ones', async () => {
    const host = await ended()
    const left = 'sessions/s1.v/packs/00000000000000000003-0123456789abcdef-0'
    host.backend.objects.set(left, { bytes: Buffer.from('left over'), modTime: new Date() })
    const packs = keysOf(host, 'packs')
    expect(await collect(host)).toEqual([])
    expect(await collect(host, { claim: true, dryRun: true })).toMatchObject([{ packs: 1 }])
    expect(keysOf(host, 'packs')).toEqual(packs)
    expect(await collect(host, { claim: true })).toMatchObject([{ packs: 1, commits: 0 }])
    expect(keysOf(host, 'packs')).toEqual(packs.filter((key) => key !== left))
    expect(await verifyGeneration(storeOf(host), 's1')).toMatchObject({ damaged: [] })
    for (const { generation } of await sessionHistory(storeOf(host), 's1'))
      expect(await verifyGeneration(storeOf(host), 's1', { generation })).toMatchObject({ damaged: [] })
  })

  it('is looked for in every session but those that can not be read, which are told', async () => {
    const host = await ended()
    const key = keysOf(host, 'commits').at(-1) as string
    host.backend.objects.set(key, {
      bytes: Buffer.from('no commit at all, but longer than the first bytes'),
      modTime: new Date(),
    })
    expect(await collect(host)).toMatchObject([
      { id: 's1', commits: 0, kept: expect.stringContaining('damaged') as string },
    ])
  })
})

describe('a repair', () => {
  it('stores again what the local tree still has, and lists what it has not', async () => {
    const host = await ended()
    const store = storeOf(host)
    const options = { clock: host.clock, treeDir: host.dir }
    expect(await repairSession(store, 's1', options)).toEqual({ repaired: [], lost: [] })
    const pack = keysOf(host, 'packs').at(-1) as string
    host.backend.objects.delete(pack)
    const { damaged } = await verifyGeneration(store, 's1')
    expect(damaged.map(({ path }) => path)).toContain('files/large')
    const elsewhere = join(host.disk, 'elsewhere')
    mkdirSync(elsewhere)
    const there = { ...options, treeDir: elsewhere }
    expect(await repairSession(store, 's1', there)).toMatchObject({ repaired: [], lost: damaged })
    const { repaired, generation } = await repairSession(store, 's1', options)
    expect(repaired).toEqual(damaged.map(({ path }) => path))
    expect(await verifyGeneration(store, 's1')).toMatchObject({ generation, damaged: [] })
    const to = join(host.disk, 'restored')
    await restoreSession(store, 's1', { to })
    expect(treeListing(to).find((line) => line.startsWith('files/large'))).toEqual(
      treeListing(host.dir).find((line) => line.startsWith('files/large')),
    )
    rmSync(to, { recursive: true })
    const next = await TestHost.boot({ layoutName: 'versioned', backend: host.backend })
    await next.turn('t5')
    await next.stop()
    await restoreSession(store, 's1', { to })
  })
})
