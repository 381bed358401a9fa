import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { BlobStore } from '@nexus/blobs'
import { describe, expect, it } from 'vitest'
import { elapse, plant, storedText, until } from '../../test/memory-store.ts'
import { TestHost, type HostOptions } from '../../test/test-host.ts'
import { machineRecordPath, readMachineRecord } from './machine-record.ts'
import { StaleLocalTreeError } from './stale-local-tree-error.ts'

const MANIFEST = 'sessions/s1.manifest/manifest.json'

/** A host that ran one turn and is gone, without a stop unless said. */
async function ranHere({ stop = false, ...options }: HostOptions & { stop?: boolean } = {}): Promise<TestHost> {
  const host = await TestHost.boot(options)
  await host.turn('t1', () => host.write('files/x.txt', 'from a'))
  await (stop ? host.stop() : host.kill())
  return host
}

/** Another host takes the session over, adds a turn, and ends. */
async function takenOver(a: TestHost, { stop = true } = {}): Promise<TestHost> {
  const b = await TestHost.boot({ backend: a.backend })
  await b.turn('t2', () => b.write('files/x.txt', 'from b'))
  await (stop ? b.stop() : b.kill())
  return b
}

/** The same disk again. */
function again(a: TestHost, options: HostOptions = {}): Promise<TestHost> {
  return TestHost.boot({ disk: a.disk, backend: a.backend, ...options })
}

function textOf(host: TestHost, path = 'files/x.txt'): string {
  return readFileSync(join(host.dir, path), 'utf8')
}

function generationInStore(host: TestHost): number {
  return (JSON.parse(storedText(host.backend, MANIFEST) ?? '{}') as { generation: number }).generation
}

describe('a warm tree that the store has nothing newer than', () => {
  it.each([true, false])('is used as it is, without hydrating (stopped: %s)', async (stop) => {
    const a = await ranHere({ stop })
    a.write('files/local-only.txt', 'kept')
    const resumed = await again(a)
    expect(resumed.resolution).toEqual({ tree: 'local' })
    expect(textOf(resumed, 'files/local-only.txt')).toBe('kept')
    expect(resumed.events.filter(({ type }) => type.startsWith('session.'))).toEqual([])
    await resumed.turn('t2')
    expect(resumed.seen('session.snapshot.result')).toMatchObject([{ ok: true }])
    await resumed.stop()
  })

  it('is used when the answer to its own last commit was lost', async () => {
    const twin = await TestHost.boot()
    await twin.turn('t1')
    await twin.turn('t2', () => twin.write('files/x.txt', 'second'))
    const call = twin.backend.faults.calls.findLast(({ op, key }) => op === 'put' && key === MANIFEST)
    await twin.kill()
    const a = await TestHost.boot()
    await a.turn('t1')
    a.backend.faults.applyThenFail(call?.index ?? 0)
    await a.turn('t2', () => a.write('files/x.txt', 'second'))
    expect(a.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: false })
    expect(generationInStore(a)).toBe(2)
    await a.kill()
    a.backend.faults.heal()
    const resumed = await again(a)
    expect(resumed.resolution).toEqual({ tree: 'local' })
    await resumed.turn('t3')
    expect(resumed.seen('session.owner.lost')).toEqual([])
    expect(generationInStore(resumed)).toBe(3)
    await resumed.stop()
  })

  it('is used when the store never committed it', async () => {
    const a = await TestHost.boot()
    a.backend.faults.failWhen(() => true)
    await a.turn('t1', () => a.write('files/x.txt', 'unstored'))
    await a.kill()
    a.backend.faults.heal()
    const resumed = await again(a)
    expect(resumed.resolution).toEqual({ tree: 'local' })
    await resumed.turn('t2', () => undefined)
    const b = await TestHost.boot({ backend: a.backend })
    expect(textOf(b)).toBe('unstored')
    await b.kill()
    await resumed.kill()
  })
})

describe('a warm tree that another host has overtaken', () => {
  it('is set aside, never deleted, and the session restored', async () => {
    const a = await ranHere()
    await takenOver(a)
    const resumed = await again(a)
    expect(resumed.resolution).toMatchObject({ tree: 'hydrated' })
    expect(textOf(resumed)).toBe('from b')
    const keptAt = resumed.resolution?.keptAt ?? ''
    expect(keptAt).toMatch(/\/\.stale-s1-20261129T163412Z$/)
    expect(readFileSync(join(keptAt, 'files/x.txt'), 'utf8')).toBe('from a')
    expect(existsSync(join(keptAt, 'session.lock'))).toBe(false)
    expect(resumed.seen('session.local.stale')).toEqual([
      {
        _schema_version: 1,
        session_id: 's1',
        local_generation: 1,
        remote_generation: 3,
        forked: false,
        kept_at: keptAt,
      },
    ])
    await resumed.turn('t3')
    expect(generationInStore(resumed)).toBe(4)
    await resumed.stop()
  })

  it('is reported as a fork when it has turns that the store never got', async () => {
    const a = await TestHost.boot()
    await a.turn('t1')
    a.backend.faults.failWhen(() => true)
    await a.turn('lost')
    await a.kill()
    a.backend.faults.heal()
    await takenOver(a)
    const resumed = await again(a)
    expect(resumed.seen('session.local.stale')).toMatchObject([{ forked: true }])
    await resumed.stop()
  })

  it('is set aside after a clean stop just the same', async () => {
    const a = await ranHere({ stop: true })
    await takenOver(a)
    const resumed = await again(a)
    expect(resumed.resolution?.tree).toBe('hydrated')
    expect(resumed.seen('session.local.stale')).toMatchObject([{ forked: false }])
    await resumed.stop()
  })

  it('fails the boot under refuse, and is left as it is', async () => {
    const a = await ranHere()
    await takenOver(a)
    const refused = new TestHost({ disk: a.disk, backend: a.backend, staleLocal: 'refuse' })
    await expect(refused.boot()).rejects.toBeInstanceOf(StaleLocalTreeError)
    await refused.durability.finish({ clean: false })
    expect(textOf(a)).toBe('from a')
    expect(readdirSync(join(a.disk, 'sessions')).filter((name) => name.startsWith('.stale'))).toEqual([])
  })

  it('is used under keep, with an error in the log, and its next commit hides the other', async () => {
    const a = await ranHere()
    await takenOver(a)
    const kept = await again(a, { staleLocal: 'keep' })
    expect(textOf(kept)).toBe('from a')
    expect(kept.logged('error')).toHaveLength(1)
    await kept.turn('t3', () => undefined)
    expect(kept.seen('session.owner.lost')).toEqual([])
    expect(generationInStore(kept)).toBe(4)
    await kept.stop()
    const b = await TestHost.boot({ backend: a.backend })
    expect(textOf(b)).toBe('from a')
    await b.stop()
  })

  it('comes back to its place when the restore fails, and the boot fails', async () => {
    const a = await ranHere()
    await takenOver(a)
    const key = 'sessions/s1/files/x.txt'
    const bytes = storedText(a.backend, key) ?? ''
    a.backend.objects.delete(key)
    const failed = new TestHost({ disk: a.disk, backend: a.backend })
    await expect(failed.boot()).rejects.toMatchObject({ code: 'CORRUPT' })
    await failed.durability.finish({ clean: false })
    expect(textOf(a)).toBe('from a')
    plant(a.backend, key, bytes)
    const resumed = await again(a)
    expect(textOf(resumed)).toBe('from b')
    await resumed.stop()
  })

  it('is not trusted when the machine knows nothing of it', async () => {
    const a = await ranHere({ stop: true })
    rmSync(machineRecordPath(join(a.disk, 'sessions'), 's1'))
    const resumed = await again(a)
    expect(resumed.resolution?.tree).toBe('hydrated')
    await resumed.stop()
  })
})

describe('a tree that a power loss may have torn', () => {
  it('is set aside and the session restored', async () => {
    const a = await ranHere()
    a.write('files/x.txt', 'torn')
    const resumed = await again(a, { bootId: 'boot-2' })
    expect(resumed.resolution?.tree).toBe('hydrated')
    expect(textOf(resumed)).toBe('from a')
    expect(readFileSync(join(resumed.resolution?.keptAt ?? '', 'files/x.txt'), 'utf8')).toBe('torn')
    expect(resumed.seen('session.local.stale')).toMatchObject([
      { forked: false, local_generation: 1, remote_generation: 1 },
    ])
    await resumed.stop()
  })

  it('is kept, with an error in the log, when it has completed turns that the store never got', async () => {
    const a = await TestHost.boot()
    await a.turn('t1')
    a.backend.faults.failWhen(() => true)
    await a.turn('t2', () => a.write('files/x.txt', 'never stored'))
    await a.kill()
    a.backend.faults.heal()
    const resumed = await again(a, { bootId: 'boot-2' })
    expect(resumed.resolution).toEqual({ tree: 'local' })
    expect(textOf(resumed)).toBe('never stored')
    expect(resumed.logged('error')).toHaveLength(1)
    await resumed.turn('t3', () => undefined)
    expect(resumed.seen('session.snapshot.result')).toMatchObject([{ ok: true }])
    await resumed.stop()
  })

  it('is no question after a clean stop', async () => {
    const a = await ranHere({ stop: true })
    const resumed = await again(a, { bootId: 'boot-2' })
    expect(resumed.resolution).toEqual({ tree: 'local' })
    await resumed.stop()
  })
})

describe('a boot while the store can not be reached', () => {
  it('fails when there is no tree here, under both policies', async () => {
    for (const policy of ['degrade', 'strict'] as const) {
      const a = await ranHere({ stop: true })
      a.backend.faults.failWhen(({ op }) => op !== 'list')
      const b = new TestHost({ backend: a.backend, policy })
      await expect(b.boot()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
      await b.durability.finish({ clean: false })
      expect(existsSync(b.dir)).toBe(false)
    }
  })

  it('never takes an access error for a session that nobody has seen', async () => {
    const a = await ranHere({ stop: true })
    a.backend.faults.failWhen(({ op }) => op === 'get', Object.assign(new Error('403'), { errorClass: 'permission' }))
    const b = new TestHost({ backend: a.backend })
    await expect(b.boot()).rejects.toMatchObject({ code: 'PERMISSION' })
    await b.durability.finish({ clean: false })
  })

  it('uses the local tree, degraded, and recovers by itself when the store is back', async () => {
    const a = await ranHere()
    a.backend.faults.failWhen(() => true)
    const degraded = await again(a)
    expect(degraded.resolution).toMatchObject({ tree: 'local', undecided: { hasConversation: expect.any(Boolean) } })
    expect(degraded.seen('session.storage.degraded')).toHaveLength(1)
    expect(degraded.durability.status()).toMatchObject({ degraded: true, undecided: true })
    await degraded.turn('t2', () => degraded.write('files/x.txt', 'meanwhile'))
    a.backend.faults.heal()
    await elapse(recovered(degraded), degraded.clock)
    expect(degraded.durability.status()).toMatchObject({ degraded: false })
    await degraded.kill()
    const b = await TestHost.boot({ backend: a.backend })
    expect(textOf(b)).toBe('meanwhile')
    await b.stop()
  })

  it('refuses input under strict until a snapshot is stored: the last turn may be nowhere else', async () => {
    const a = await ranHere()
    a.backend.faults.failWhen(() => true)
    const degraded = await again(a, { policy: 'strict' })
    expect(await degraded.input()).toMatchObject({ vetoed: true })
    a.backend.faults.heal()
    await elapse(recovered(degraded), degraded.clock)
    expect(await degraded.input()).toEqual({ vetoed: false })
    await degraded.stop()
  })

  it('decides again before its first commit: a tree that was overtaken is never stored', async () => {
    const a = await ranHere()
    await takenOver(a)
    a.backend.faults.failWhen(() => true)
    const degraded = await again(a)
    await degraded.turn('t3', () => degraded.write('files/x.txt', 'a fork'))
    a.backend.faults.heal()
    await degraded.turn('t4')
    expect(degraded.seen('session.local.stale')).toMatchObject([
      { forked: true, remote_generation: 3, kept_at: degraded.dir },
    ])
    expect(degraded.seen('session.owner.lost')).toMatchObject([{ our_generation: 1, their_generation: 3 }])
    expect(generationInStore(degraded)).toBe(3)
    await degraded.stop()
    const resumed = await again(a)
    expect(textOf(resumed)).toBe('from b')
    expect(readFileSync(join(resumed.resolution?.keptAt ?? '', 'files/x.txt'), 'utf8')).toBe('a fork')
    await resumed.stop()
  })

  it('decides again before its first commit: under keep it goes on', async () => {
    const a = await ranHere()
    await takenOver(a)
    a.backend.faults.failWhen(() => true)
    const degraded = await again(a, { staleLocal: 'keep' })
    a.backend.faults.heal()
    await degraded.turn('t3')
    expect(degraded.seen('session.owner.lost')).toEqual([])
    expect(generationInStore(degraded)).toBe(4)
    await degraded.stop()
  })

  it('decides again before its first commit: a tree that may be torn is not stored, whatever turns came after the power loss', async () => {
    const a = await ranHere()
    a.write('files/x.txt', 'torn')
    a.backend.faults.failWhen(() => true)
    const degraded = await again(a, { bootId: 'boot-2' })
    await degraded.turn('t2', () => degraded.write('files/y.txt', 'a newer turn'))
    a.backend.faults.heal()
    await expect(degraded.durability.snapshot('request')).rejects.toMatchObject({ code: 'PRECONDITION' })
    await degraded.turn('t3')
    expect(degraded.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: false })
    expect(generationInStore(degraded)).toBe(1)
    await degraded.kill()
    const resumed = await again(a, { bootId: 'boot-2' })
    expect(resumed.resolution?.tree).toBe('hydrated')
    expect(textOf(resumed)).toBe('from a')
    expect(resumed.seen('session.local.stale')).toHaveLength(1)
    expect(readFileSync(join(resumed.resolution?.keptAt ?? '', 'files/y.txt'), 'utf8')).toBe('a newer turn')
    await resumed.stop()
  })

  it('does not forget that the tree may be torn when it dies before it could decide', async () => {
    const a = await ranHere()
    a.write('files/x.txt', 'torn')
    a.backend.faults.failWhen(() => true)
    const degraded = await again(a, { bootId: 'boot-2' })
    await degraded.kill()
    a.backend.faults.heal()
    const resumed = await again(a, { bootId: 'boot-2' })
    expect(resumed.resolution?.tree).toBe('hydrated')
    expect(textOf(resumed)).toBe('from a')
    await resumed.stop()
  })

  it('costs bounded time when the store accepts and never answers', async () => {
    const a = await ranHere()
    a.backend.faults.hang(() => true, { ignoreSignal: true })
    const degraded = new TestHost({ disk: a.disk, backend: a.backend })
    const startedAt = degraded.clock.now()
    await elapse(degraded.boot(), degraded.clock)
    expect(degraded.clock.now() - startedAt).toBeLessThan(90_000)
    expect(degraded.resolution).toMatchObject({ tree: 'local', undecided: { hasConversation: expect.any(Boolean) } })
    await elapse(degraded.kill(), degraded.clock)
  })
})

describe('a tree that was restored', () => {
  it.each(['hydrate:before-rename', 'hydrate:renamed'])(
    'is known for what it is, also when the process dies at %s',
    async (name) => {
      const a = await ranHere()
      const died = new TestHost({
        backend: a.backend,
        failpoint: (at) => {
          if (at === name) throw new Error('died')
        },
      })
      await expect(died.boot()).rejects.toThrow('died')
      const resumed = await again(died, { staleLocal: 'refuse' })
      expect(resumed.resolution?.tree).toBe(name === 'hydrate:renamed' ? 'local' : 'hydrated')
      expect(resumed.seen('session.local.stale')).toEqual([])
      await resumed.turn('t2')
      expect(resumed.seen('session.owner.lost')).toEqual([])
      expect(generationInStore(resumed)).toBe(2)
      await resumed.stop()
    },
  )

  it('does not lend its record to the tree that comes back when it could not be placed', async () => {
    const a = await ranHere()
    // Its journal goes further than the commit that takes over: under the record of that one it would count as current.
    a.backend.faults.failWhen(() => true)
    const offline = await again(a)
    for (let turn = 0; turn < 20; turn++) await offline.turn(`offline-${turn}`)
    await offline.kill()
    a.backend.faults.heal()
    await takenOver(a)
    const fails = {
      failpoint: (at: string) => {
        if (at === 'hydrate:before-rename') throw new Error('no room')
      },
    }
    await expect(again(a, fails)).rejects.toThrow('no room')
    const resumed = await again(a)
    expect(resumed.seen('session.local.stale')).toHaveLength(1)
    expect(textOf(resumed)).toBe('from b')
    await resumed.stop()
  })
})

describe('a store that has forgotten a session which this machine committed there', () => {
  it.each([
    ['with its tree', false],
    ['without one', true],
  ])('is refused under strict, %s', async (_, removed) => {
    const a = await ranHere({ stop: true })
    if (removed) rmSync(a.dir, { recursive: true })
    a.backend.objects.clear()
    const refused = { policy: 'strict' } as const
    await expect(again(a, refused)).rejects.toMatchObject({
      code: 'PRECONDITION',
      message: expect.stringContaining('bucket'),
    })
    expect(existsSync(a.dir)).toBe(!removed)
    const anew = await again(a, { ...refused, acceptEmpty: true })
    await anew.turn('t2')
    expect(generationInStore(anew)).toBeGreaterThan(0)
    await anew.stop()
  })

  it('is told under degrade, and then gets everything again', async () => {
    const a = await ranHere({ stop: true })
    a.backend.objects.clear()
    const b = await again(a)
    expect(b.seen('core.error')).toMatchObject([{ source: 'core.object_store', fatal: false }])
    expect(b.logged('error')).toHaveLength(1)
    await b.turn('t2', () => undefined)
    expect(storedText(b.backend, 'sessions/s1/files/x.txt')).toBe('from a')
    await b.stop()
  })

  it('is no question for a session that was never committed', async () => {
    const a = await TestHost.boot({ policy: 'strict' })
    await a.kill()
    const b = await again(a, { policy: 'strict' })
    expect(b.seen('core.error')).toEqual([])
    await b.stop()
  })
})

describe('a manifest that can not be understood', () => {
  it.each(['', '{', '{"_schema_version":99}'])('fails the boot, local tree or not: %j', async (bytes) => {
    const a = await ranHere()
    plant(a.backend, MANIFEST, bytes)
    const code = bytes.includes('99') ? 'UNSUPPORTED' : 'CORRUPT'
    for (const disk of [a.disk, undefined]) {
      const host = new TestHost({ backend: a.backend, ...(disk === undefined ? {} : { disk }) })
      await expect(host.boot()).rejects.toMatchObject({ code })
      await host.durability.finish({ clean: false })
    }
    expect(textOf(a)).toBe('from a')
  })

  it('leaves the local tree in use under keep, and is never overwritten', async () => {
    const a = await ranHere()
    plant(a.backend, MANIFEST, 'garbage')
    const kept = await again(a, { staleLocal: 'keep' })
    await kept.turn('t2')
    expect(kept.seen('session.snapshot.result')).toMatchObject([{ ok: false }])
    expect(storedText(a.backend, MANIFEST)).toBe('garbage')
    await kept.stop()
  })
})

describe('another host that commits in mid-run', () => {
  it('is certain: the run writes nothing more and takes no input, under degrade too', async () => {
    const a = await TestHost.boot()
    await a.turn('t1', () => a.write('files/x.txt', 'from a'))
    const b = await takenOver(a)
    const calls = a.backend.faults.calls.length
    await a.turn('t3', () => {
      a.write('files/x.txt', 'from a again')
      a.write('files/new.txt', 'overwrites nothing')
    })
    expect(a.seen('session.owner.lost')).toEqual([
      {
        _schema_version: 1,
        session_id: 's1',
        our_generation: 1,
        their_generation: 3,
        their_instance_id: manifestInstance(b),
      },
    ])
    expect(await a.input()).toMatchObject({ vetoed: true, reason: expect.stringContaining('generation 3') as string })
    await a.turn('t4')
    // No heartbeat, no retry: nothing of this run touches the store any more.
    expect(a.clock.pendingTimers).toBe(0)
    await a.clock.advance(600_000)
    a.durability.blobHooks.onPut({ sha256: 'a'.repeat(64) })
    await expect(a.durability.snapshot('request')).rejects.toMatchObject({ code: 'FENCED' })
    await a.stop()
    const writes = a.backend.faults.calls
      .slice(calls)
      .filter(({ op }) => op === 'put' || op === 'delete' || op === 'putIfAbsent')
    expect(writes).toEqual([])
    expect(a.seen('session.owner.lost')).toHaveLength(1)
    expect(a.seen('session.storage.degraded')).toHaveLength(1)
    expect(a.seen('session.storage.recovered')).toEqual([])
    expect(a.durability.status()).toMatchObject({ lost: true, degraded: true })
    const resumed = await again(a)
    expect(textOf(resumed)).toBe('from b')
    expect(resumed.seen('session.local.stale')).toMatchObject([{ forked: true }])
    await resumed.stop()
  })

  it('vetoes input under strict, and stop() rejects', async () => {
    const a = await TestHost.boot({ policy: 'strict' })
    await a.turn('t1')
    await takenOver(a)
    await a.turn('t3')
    expect(await a.input()).toMatchObject({ vetoed: true, reason: expect.stringContaining('generation 3') as string })
    await expect(a.stop()).rejects.toMatchObject({ code: 'FENCED' })
  })

  it('is overwritten when on_lost says so, and each time reported', async () => {
    const a = await TestHost.boot({ onLost: 'overwrite' })
    await a.turn('t1')
    await takenOver(a)
    await a.turn('t3', () => a.write('files/x.txt', 'from a again'))
    expect(a.seen('session.owner.lost')).toHaveLength(1)
    expect(a.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: true, generation: 4 })
    await takenOver(a)
    await a.turn('t5')
    expect(a.seen('session.owner.lost')).toHaveLength(2)
    await a.stop()
  })

  it('is noticed by the heartbeat of a session where nothing happens, before it claims the session anew', async () => {
    const a = await TestHost.boot({ policy: 'strict' })
    await a.turn('t1')
    await takenOver(a)
    const marker = 'sessions/s1.owner/owner.json'
    expect(a.backend.objects.has(marker)).toBe(false)
    await a.clock.advance(30_000)
    await until(() => a.seen('session.owner.lost').length === 1, 'the loss')
    expect(a.backend.objects.has(marker)).toBe(false)
    expect(await a.input()).toMatchObject({ vetoed: true })
    expect(a.seen('session.storage.degraded')).toMatchObject([{ turns_blocked: true }])
    expect(a.clock.pendingTimers).toBe(0)
    await a.kill()
  })

  it('is noticed before a process that was frozen uploads a blob', async () => {
    const a = await TestHost.boot()
    await a.turn('t1')
    await takenOver(a)
    const blobs = BlobStore.open(join(a.dir, 'blobs'), a.durability.blobHooks)
    const skipping = a.clock as unknown as { now: () => number }
    const now = a.clock.now()
    skipping.now = () => now + 3_600_000
    const { sha256 } = await blobs.put(Buffer.from('a picture'))
    await until(() => a.durability.status().lost, 'the loss')
    expect([...a.backend.objects.keys()].filter((key) => key.includes(sha256))).toEqual([])
    await a.kill()
  })

  it('is noticed by a process that was frozen while the other host came and went', async () => {
    const a = await TestHost.boot()
    await a.turn('t1')
    await takenOver(a)
    await a.clock.advance(3_600_000)
    await expect(a.durability.snapshot('request')).rejects.toMatchObject({ code: 'FENCED' })
    await a.kill()
  })
})

describe('what a machine remembers of a session', () => {
  it('is that all of it is stored, after a stop that stored it', async () => {
    const a = await ranHere({ stop: true })
    expect(readMachineRecord(join(a.disk, 'sessions'), 's1')).toMatchObject({ clean: true, stored: true })
    const resumed = await again(a)
    expect(readMachineRecord(join(a.disk, 'sessions'), 's1')).toMatchObject({ clean: false, stored: false })
    a.backend.faults.failWhen(({ op }) => op === 'put')
    await resumed.stop()
    expect(readMachineRecord(join(a.disk, 'sessions'), 's1')).toMatchObject({ clean: true, stored: false })
  })

  it('survives a mixture until a commit has repeated it', async () => {
    const a = await TestHost.boot()
    await a.turn('t1', () => a.write('files/x.txt', 'one'))
    // The next snapshot overwrites the file in place and dies before its manifest.
    a.backend.faults.failWhen(({ op, key }) => op === 'put' && key === MANIFEST)
    await a.turn('t2', () => a.write('files/x.txt', 'two!'))
    await a.kill()
    a.backend.faults.heal()
    const b = await TestHost.boot({ backend: a.backend })
    expect(b.seen('session.hydrate.mixed')).toMatchObject([{ generation: 1, paths: ['files/x.txt'] }])
    await b.kill()
    const resumed = await again(b)
    await resumed.turn('t3', () => undefined)
    expect(JSON.parse(storedText(a.backend, MANIFEST) ?? '{}')).toMatchObject({
      mixed_from: { generation: 1, paths: ['files/x.txt'] },
    })
    await resumed.turn('t4', () => undefined)
    expect(JSON.parse(storedText(a.backend, MANIFEST) ?? '{}')).not.toHaveProperty('mixed_from')
    await resumed.stop()
  })
})

function recovered(host: TestHost): Promise<void> {
  return new Promise((resolve) => {
    host.bus.subscribe('session.storage.recovered', () => resolve())
  })
}

function manifestInstance(host: TestHost): string {
  return (JSON.parse(storedText(host.backend, MANIFEST) ?? '{}') as { instance_id: string }).instance_id
}
