import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from '@nexus/host/testing'
import type { MemoryBackend } from '@nexus/objectstore-memory-test'
import { describe, expect, it } from 'vitest'
import { SessionCommits } from '../../src/versioned/session-commits.ts'
import { removeSession } from '../../src/versioned/core/removal.ts'
import { readSessionRecord, SessionRecordFile } from '../../src/versioned/record-file.ts'
import { decodeHead } from '../../src/versioned/format/commit-object.ts'
import { prepareBare } from '../../src/versioned/store/write/prepare-commit.ts'
import { SessionObjects } from '../../src/versioned/store/session-objects.ts'
import { emptyState } from '../../src/versioned/store/read/load-tree.ts'
import { Slices } from '@nexus/host'
import { newDir, newStore, until } from '../memory-store.ts'
import { versionedOf } from '../layout-of.ts'
import { type HostOptions, TestHost } from '../test-host.ts'
import { SessionFixture } from './session-fixture.ts'

const RECORD = 'session.record.jsonl'

async function boot(options: HostOptions = {}): Promise<TestHost> {
  return await TestHost.boot({ layoutName: 'versioned', ...options })
}

function commitKeys({ objects }: MemoryBackend): string[] {
  return [...objects.keys()].filter((key) => key.startsWith('sessions/s1.v/commits/')).toSorted()
}

function keyOf(generation: number): string {
  return `sessions/s1.v/commits/${'0'.repeat(17)}/${String(generation).padStart(3, '0')}`
}

/** What each commit of the bucket is. */
function kindsIn(backend: MemoryBackend): string[] {
  return commitKeys(backend).map((key, at) => {
    const bytes = backend.objects.get(key)?.bytes as Buffer
    const head = decodeHead(bytes, { object: key, sessionId: 's1', generation: at + 1 })
    return head === 'short' ? 'short' : head.header.kind
  })
}

function setAside({ disk }: TestHost): string[] {
  return readdirSync(join(disk, 'sessions')).filter((name) => name.startsWith('.stale-'))
}

/** Ends the session in the bucket, as `rm` does first. */
async function remove(backend: MemoryBackend): Promise<void> {
  const { store } = newStore({ of: backend })
  const objects = new SessionObjects({ store, sessionId: 's1', root: 'sessions/s1.v', scratchDir: newDir('rm') })
  const commits = new SessionCommits(objects)
  const { context } = new SessionFixture({ context: { objects } })
  await removeSession({
    store: commits,
    prepareRemoved: async (parent, generation) => {
      const whole = parent === undefined ? undefined : await objects.readWhole(parent.generation)
      const link = whole && {
        generation: generation - 1,
        nonce: whole.header.nonce,
        header_sha256: whole.headerSha256,
      }
      const before = whole && emptyState({ ...whole.header, packs: [] }, whole.headerSha256)
      const base = { parent: before, link, generation, kept: [], lastStartNs: undefined }
      return await prepareBare(context, base, 'removed', new Slices())
    },
  })
}

describe('a claim that is lost', () => {
  it('is made again on what the winner committed, which the host fetches first', async () => {
    const first = await boot()
    await first.turn('t1')
    await first.stop()
    const { backend } = first
    const late = new TestHost({ layoutName: 'versioned', backend, disk: first.disk })
    const create = backend.putIfAbsent.bind(backend)
    let rival: TestHost | undefined
    // Another host claims and commits between the look of this one and its claim.
    backend.putIfAbsent = async (...args) => {
      backend.putIfAbsent = create
      rival = await boot({ backend })
      await rival.turn('t2', () => rival?.write('files/turn.txt', 'of the rival'))
      return await create(...args)
    }
    await late.boot()
    expect(late.resolution?.tree).toBe('hydrated')
    expect(readFileSync(join(late.dir, 'files/turn.txt'), 'utf8')).toBe('of the rival')
    await late.turn('t3')
    expect(late.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: true })
    await late.stop()
    await rival?.kill()
  })

  it('claims first after three losses, and only then fetches', async () => {
    const first = await boot()
    await first.turn('t1')
    await first.stop()
    const { backend } = first
    let restores = 0
    const failpoint = (name: string): void => void (restores += name === 'hydrate:renamed' ? 1 : 0)
    const host = new TestHost({ layoutName: 'versioned', backend, failpoint })
    const rivals: TestHost[] = []
    const order: string[] = []
    const create = backend.putIfAbsent.bind(backend)
    // Before each of the first claims of the host, somebody else takes the session and commits.
    let losses = 0
    let isRival = false
    backend.putIfAbsent = async (...args) => {
      if (!isRival && losses < 4) {
        losses += 1
        isRival = true
        const rival = await boot({ backend, instanceId: `rival-${losses}` })
        await rival.turn(`r${losses}`)
        rivals.push(rival)
        isRival = false
      }
      const isNew = await create(...args)
      if (!isRival) order.push(isNew ? 'claimed' : 'lost')
      return isNew
    }
    await host.boot()
    backend.putIfAbsent = create
    expect(order).toEqual(['lost', 'lost', 'lost', 'lost', 'claimed'])
    // Three claims had a restored tree to hold to; from the fourth on the tree is fetched once, when the claim stands.
    expect(restores).toBe(4)
    expect(readFileSync(join(host.dir, 'files/turn.txt'), 'utf8')).toBe('r4')
    expect(setAside(host)).toEqual([])
    await host.turn('t2')
    expect(host.seen('session.owner.lost')).toEqual([])
    expect(host.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: true })
    await host.stop()
    for (const rival of rivals) await rival.kill()
  })
})

describe('a session that was removed', () => {
  it('is told to a resume, which names when, and leaves the local tree as it is', async () => {
    const host = await boot()
    await host.turn('t1')
    await host.stop()
    await remove(host.backend)
    const before = commitKeys(host.backend)
    for (const disk of [host.disk, newDir('other')]) {
      await expect(boot({ backend: host.backend, disk })).rejects.toMatchObject({
        code: 'NOT_FOUND',
        message: expect.stringMatching(/was removed at \d{4}-\d\d-\d\dT/) as string,
      })
    }
    expect(commitKeys(host.backend)).toEqual(before)
    expect(existsSync(join(host.dir, 'files/turn.txt'))).toBe(true)
  })

  it('begins anew behind its end, with the warm tree set aside', async () => {
    const host = await boot()
    await host.turn('t1')
    await host.stop()
    const { backend, disk } = host
    await remove(backend)
    const kinds = kindsIn(backend)
    expect(kinds.at(-1)).toBe('removed')
    const again = await boot({ backend, disk, beginAgain: true })
    expect(again.resolution).toMatchObject({ tree: 'created', keptAt: expect.stringContaining('.stale-s1-') as string })
    expect(kindsIn(backend)).toEqual([...kinds, 'claim'])
    expect(existsSync(join(again.dir, 'files/turn.txt'))).toBe(false)
    await again.turn('t2')
    await again.stop()
    const other = await boot({ backend })
    expect(readFileSync(join(other.dir, 'files/turn.txt'), 'utf8')).toBe('t2')
    await other.stop()
  })

  it.each(['boot', 'first-commit'] as const)('is begun anew on a fresh machine too, claimed at %s', async (claims) => {
    const host = await boot()
    await host.turn('t1')
    await host.stop()
    await remove(host.backend)
    const again = await boot({ backend: host.backend, beginAgain: true, claims })
    await again.turn('t2')
    expect(again.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: true })
    await again.stop()
    const other = await boot({ backend: host.backend })
    expect(other.resolution?.tree).toBe('hydrated')
    await other.stop()
  })

  it('ends a run that booted while the store was down, at its first commit, and is tried no more', async () => {
    const host = await boot()
    await host.turn('t1')
    await host.stop()
    const { backend, disk } = host
    await remove(backend)
    backend.faults.failWhen(() => true)
    const again = await boot({ backend, disk })
    expect(again.resolution?.undecided).toBeDefined()
    backend.faults.heal()
    const before = commitKeys(backend)
    await again.turn('t2')
    expect(again.durability.status().lost).toBe(true)
    expect(again.seen('session.owner.lost')).toHaveLength(1)
    const { reason } = await again.input()
    expect(reason).toMatch(/was removed at/)
    const calls = backend.faults.calls.length
    await again.clock.advance(120_000)
    expect(backend.faults.calls).toHaveLength(calls)
    expect(commitKeys(backend)).toEqual(before)
    await again.kill()
  })
})

describe('a store that answers with what nobody can read', () => {
  it.each(['degrade', 'strict'] as const)('fails the boot of a warm tree under %s', async (policy) => {
    const host = await boot({ policy })
    await host.turn('t1')
    await host.stop()
    const { backend, disk } = host
    const head = commitKeys(backend).at(-1) as string
    const object = backend.objects.get(head)
    object?.bytes.fill(7, 100, 200)
    await expect(boot({ backend, disk, policy })).rejects.toMatchObject({ code: 'CORRUPT' })
  })

  it('ends a run as CORRUPT whose next number it fills', async () => {
    const host = await boot()
    await host.turn('t1')
    const next = commitKeys(host.backend).length + 1
    host.backend.objects.set(keyOf(next), { bytes: Buffer.from('NXC1 and then nothing of sense'), modTime: new Date() })
    await expect(host.durability.snapshot('request')).rejects.toMatchObject({ code: 'CORRUPT' })
    expect(host.durability.status().lost).toBe(true)
    expect(host.seen('session.owner.lost')).toHaveLength(1)
    await host.kill()
  })
})

describe('a claim that the store does not confirm', () => {
  it('fails the boot under strict, and leaves no tree that it created', async () => {
    const host = new TestHost({ layoutName: 'versioned', policy: 'strict' })
    host.backend.faults.failWhen(({ op }) => op === 'putIfAbsent')
    await expect(host.boot()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(existsSync(host.dir)).toBe(false)
    host.backend.faults.heal()
    const again = await boot({ backend: host.backend, disk: host.disk, policy: 'strict' })
    await again.stop()
  })

  it.each([true, false])(
    'goes out again under degrade before anything else, landed the first time: %s',
    async (lands) => {
      const first = await boot()
      await first.turn('t1')
      await first.stop()
      const { backend, disk } = first
      const host = new TestHost({ layoutName: 'versioned', backend, disk })
      const before = commitKeys(backend).length
      if (lands) backend.faults.failWhen(({ op }) => op === 'flush')
      else backend.faults.failWhen(({ op }) => op === 'putIfAbsent')
      await host.boot()
      expect(host.resolution?.tree).toBe('local')
      expect(host.durability.status().degraded).toBe(true)
      backend.faults.heal()
      await host.turn('t2')
      expect(kindsIn(backend).slice(before)).toEqual(['claim', 'turn'])
      expect(host.seen('session.owner.lost')).toEqual([])
      await host.stop()
    },
  )
})

describe('a tree that holds more than the head', () => {
  it.each(['boot', 'first-commit'] as const)(
    'is owed after a claim at %s, at the end of the turn that is open',
    async (claims) => {
      const host = await boot()
      await host.turn('t1')
      const { faults } = host.backend
      faults.failWhen(({ op }) => op === 'putIfAbsent')
      await host.turn('t2')
      await host.kill()
      faults.heal()
      const before = commitKeys(host.backend).length
      const again = await boot({ backend: host.backend, disk: host.disk, claims })
      expect(again.resolution).toMatchObject({ tree: 'local', owesTurns: true })
      const claimed = claims === 'boot' ? ['claim'] : []
      expect(kindsIn(host.backend).slice(before)).toEqual(claimed)
      await again.turn('t3', async () => {
        await again.clock.advance(5_000)
        again.write('files/turn.txt', 't3')
        expect(kindsIn(host.backend).slice(before)).toEqual(claimed)
      })
      expect(kindsIn(host.backend).slice(before)).toEqual([...claimed, 'turn'])
      await again.stop()
    },
  )

  it('is committed whole where nothing was ever stored', async () => {
    const local = new TestHost({ layoutName: 'versioned' })
    local.backend.faults.failWhen(({ op }) => op === 'putIfAbsent')
    await local.boot()
    await local.turn('t1')
    await local.kill()
    local.backend.faults.heal()
    const again = await boot({ backend: local.backend, disk: local.disk })
    expect(again.resolution?.tree).toBe('local')
    await again.kill()
    const other = await boot({ backend: local.backend })
    expect(readFileSync(join(other.dir, 'files/turn.txt'), 'utf8')).toBe('t1')
    await other.stop()
  })
})

describe('the record of a tree', () => {
  it('keeps the boot of an earlier machine until the tree is judged', async () => {
    const host = await boot()
    await host.turn('t1')
    await host.kill()
    const { backend, disk } = host
    // The machine went down, and what it remembered of the session with it.
    rmSync(join(disk, 'sessions/.machine'), { recursive: true })
    backend.faults.failWhen(() => true)
    const blind = await boot({ backend, disk, bootId: 'boot-2' })
    expect(blind.resolution?.undecided).toBeDefined()
    expect(readSessionRecord(blind.dir)?.bootId).toBe('boot-1')
    await blind.kill()
    backend.faults.heal()
    rmSync(join(disk, 'sessions/.machine'), { recursive: true })
    const again = await boot({ backend, disk, bootId: 'boot-2' })
    // Torn, for all that is known: it gives way to the commit.
    expect(again.resolution?.tree).toBe('hydrated')
    expect(readSessionRecord(again.dir)?.bootId).toBe('boot-2')
    await again.stop()
  })

  it('is rewritten while it is in use when it has grown', async () => {
    const dir = tempDir()
    const record = await SessionRecordFile.open(dir, { failpoint: () => undefined })
    const digest = 'a'.repeat(64)
    const sizes: number[] = []
    for (let generation = 1; generation <= 1_000; generation++) {
      await record.add({ attempt: { generation, digest } }, { durable: false })
      await record.add({ committed: { generation, digest } }, { durable: false })
      sizes.push(readFileSync(join(dir, RECORD)).length)
    }
    expect(Math.max(...sizes)).toBeLessThan(66_000)
    expect(Math.min(...sizes.slice(500))).toBeLessThan(1_000)
    await record.close()
    expect(readSessionRecord(dir)).toMatchObject({ base: { generation: 1_000 }, attempts: [] })
  })

  it('names a pack no more that a commit of the whole tree had no use for', async () => {
    const host = await boot()
    await host.turn('t1')
    // Put, and removed again before the turn ended.
    const path = join(host.dir, 'blobs/aa')
    mkdirSync(path, { recursive: true })
    const sha = 'a'.repeat(64)
    writeFileSync(join(path, `${sha}.bin`), Buffer.alloc(400_000, 'blob'))
    host.durability.blobHooks.onPut({ sha256: sha })
    await until(() => (readSessionRecord(host.dir)?.packs.length ?? 0) > 0, 'the blob')
    rmSync(join(path, `${sha}.bin`))
    await host.turn('t2')
    expect(readSessionRecord(host.dir)?.packs).toEqual([])
    await host.stop()
  })

  it('drops packs of a killed process that the store lacks, and commits without them', async () => {
    const host = await boot()
    await host.turn('t1')
    const blob = Buffer.from(Array.from({ length: 400_000 }, (_, at) => (at * 7919) % 251))
    const sha = 'b'.repeat(64)
    const dir = join(host.dir, 'blobs/bb')
    mkdirSync(dir, { recursive: true })
    writeFileSync(join(dir, `${sha}.bin`), blob)
    host.durability.blobHooks.onPut({ sha256: sha })
    await until(() => (readSessionRecord(host.dir)?.packs.length ?? 0) > 0, 'the blob')
    await host.kill()
    const { backend, disk } = host
    // What was not flushed went down with the machine that it lay on.
    for (const key of backend.objects.keys()) if (key.includes('/packs/')) backend.objects.delete(key)
    const again = await boot({ backend, disk })
    await again.turn('t2')
    expect(again.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: true })
    await again.stop()
    const other = await boot({ backend })
    expect(readFileSync(join(other.dir, `blobs/bb/${sha}.bin`))).toEqual(blob)
    await other.stop()
  })
})

describe('the hint', () => {
  it('is left at the end of a run, and not by one that dies', async () => {
    const host = await boot()
    await host.turn('t1')
    await host.kill()
    expect(host.backend.objects.has('sessions/s1.v/hint')).toBe(false)
    const again = await boot({ backend: host.backend, disk: host.disk })
    await again.stop()
    const head = commitKeys(host.backend).length
    expect(host.backend.objects.get('sessions/s1.v/hint')?.bytes.toString()).toBe(String(head))
  })
})

describe('a committed file', () => {
  it('is brought back whatever it is, also by a run that has not asked the store yet', async () => {
    const host = await boot()
    await host.turn('t1', () => host.write('files/deep/any.txt', 'any'))
    await host.stop()
    const { backend, disk } = host
    backend.faults.failWhen(() => true)
    const again = await boot({ backend, disk })
    expect(again.resolution?.undecided).toBeDefined()
    backend.faults.heal()
    const layout = versionedOf(newStore({ of: backend }).store, 's1', join(disk, 'sessions'))
    const path = join(newDir('back'), 'any.txt')
    expect(await layout.fetchBlob('files/deep/any.txt', path, new AbortController().signal)).toBe(true)
    expect(readFileSync(path, 'utf8')).toBe('any')
    await again.kill()
  })
})

describe('a tree that another host has overtaken', () => {
  it('fails the boot under stale_local refuse, as it lies there', async () => {
    const host = await boot()
    await host.turn('t1')
    await host.stop()
    const rival = await boot({ backend: host.backend })
    await rival.turn('t2')
    await rival.stop()
    const before = commitKeys(host.backend)
    await expect(boot({ backend: host.backend, disk: host.disk, staleLocal: 'refuse' })).rejects.toMatchObject({
      name: 'StaleLocalTreeError',
    })
    expect(commitKeys(host.backend)).toEqual(before)
    expect(existsSync(host.dir)).toBe(true)
  })

  it('comes back to its place when the restore fails, also under degrade', async () => {
    const host = await boot()
    await host.turn('t1')
    await host.stop()
    const rival = await boot({ backend: host.backend })
    await rival.turn('t2')
    await rival.stop()
    let gets = 0
    // The judgement is answered, and the store goes away before the tree is fetched.
    host.backend.faults.failWhen(({ op, key }) => op === 'list' && key.includes('.v/commits') && ++gets > 1)
    await expect(boot({ backend: host.backend, disk: host.disk })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(readFileSync(join(host.dir, 'files/turn.txt'), 'utf8')).toBe('t1')
    expect(setAside(host)).toEqual([])
    host.backend.faults.heal()
  })
})
