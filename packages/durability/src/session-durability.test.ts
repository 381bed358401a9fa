import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { layoutOf } from '../test/layout-of.ts'
import { describe, expect, it } from 'vitest'
import { elapse, newDir, newStore, storedText } from '../test/memory-store.ts'
import { fingerprint, TestHost } from '../test/test-host.ts'
import { hydrateSession } from './boot/hydrate.ts'

const MANIFEST = 'sessions/s1.manifest/manifest.json'
const OWNER = 'sessions/s1.owner/owner.json'

function manifestOf(host: TestHost): { generation: number; nonce: string; objects: string[]; instance_id: string } {
  return JSON.parse(storedText(host.backend, MANIFEST) ?? 'null') as never
}

describe('a turn', () => {
  it('is stored when the emit of its end resolves, and resumes on a host that never saw the session', async () => {
    const a = await TestHost.boot()
    await a.turn('t1', () => {
      a.write('context/conversation.jsonl', '{"role":"user"}\n')
      a.storage.open('session', 'nexus.memory').put('k', 'v1')
    })
    a.write('files/after.txt', 'written after the boundary')
    await a.kill()
    const b = await TestHost.boot({ backend: a.backend })
    expect(b.resolution).toMatchObject({ tree: 'hydrated' })
    expect(readFileSync(join(b.dir, 'context/conversation.jsonl'), 'utf8')).toBe('{"role":"user"}\n')
    expect(b.storage.open('session', 'nexus.memory').get('k')?.toString()).toBe('v1')
    expect(existsSync(join(b.dir, 'files/after.txt'))).toBe(false)
    expect(b.seen('session.local.stale')).toEqual([])
    await b.stop()
  })

  it('reports its snapshot once, with what it cost, and logs one line', async () => {
    const host = await TestHost.boot()
    await host.turn('t1')
    const [result, ...others] = host.seen('session.snapshot.result')
    expect(others).toEqual([])
    expect(result).toMatchObject({
      _schema_version: 1,
      session_id: 's1',
      trigger: 'turn',
      turn_id: 't1',
      sequence: 1,
      generation: 1,
      ok: true,
      unstored: [],
    })
    expect(result?.['objects']).toBe(manifestOf(host).objects.length)
    const line = host.lines.find(({ level, message }) => level === 'info' && message === 'the session is stored')
    expect(Object.keys(line?.fields ?? {}).toSorted()).toEqual(
      [
        'session_id trigger sequence generation objects bytes objects_uploaded bytes_uploaded objects_skipped bytes_skipped',
        'manifest_bytes db_bytes db_duration shared_objects shared_bytes shared_db_duration duration',
      ]
        .join(' ')
        .split(' ')
        .toSorted(),
    )
    await host.stop()
  })

  it('has the journal of its own end in the store', async () => {
    const host = await TestHost.boot()
    await host.turn('t1')
    const stored = storedText(host.backend, 'sessions/s1/journal/events.jsonl') ?? ''
    expect(stored).toContain('"type":"agent.turn.end"')
    await host.stop()
  })

  it('may be stored again from inside a handler of its result', async () => {
    const host = await TestHost.boot()
    let again: unknown
    host.bus.subscribe('session.snapshot.result', async ({ payload }) => {
      if ((payload as { trigger: string }).trigger === 'turn')
        again = await host.durability.snapshot('request', { reason: 'handler' })
    })
    await host.turn('t1')
    expect(again).toMatchObject({ committed: { generation: 2 } })
    await host.stop()
  })

  it('shares one snapshot with everybody who asks while another runs', async () => {
    const host = await TestHost.boot()
    await host.turn('t1')
    await Promise.all([
      host.durability.snapshot('request'),
      host.durability.snapshot('request'),
      host.turn('t2'),
      host.bus.emit('session.snapshot.request', { reason: 'please' }),
    ])
    const results = host.seen('session.snapshot.result').map(({ trigger }) => trigger)
    expect(results).toEqual(['turn', 'request', 'turn'])
    await host.stop()
  })
})

describe('generations', () => {
  it('grow across runs and hosts, while the sequence starts at 1 in each', async () => {
    const a = await TestHost.boot()
    await a.turn('t1')
    await a.turn('t2')
    await a.kill()
    const b = await TestHost.boot({ backend: a.backend })
    await b.turn('t3')
    expect(b.seen('session.snapshot.result').at(-1)).toMatchObject({ generation: 3, sequence: 1 })
    await b.stop()
    expect(manifestOf(b).generation).toBe(4)
  })
})

describe('the end of a run', () => {
  it('stores everything, removes the owner marker, flushes, and closes the store', async () => {
    const host = await TestHost.boot()
    expect(host.backend.objects.has(OWNER)).toBe(true)
    await host.turn('t1')
    host.write('files/late.txt', 'late')
    await host.stop()
    expect(host.backend.objects.has(OWNER)).toBe(false)
    expect(host.backend.faults.calls.at(-1)?.op).toBe('flush')
    await expect(host.test.store.flush()).rejects.toMatchObject({ code: 'CLOSED' })
    expect(host.clock.pendingTimers).toBe(0)
    const b = await TestHost.boot({ backend: host.backend })
    expect(readFileSync(join(b.dir, 'files/late.txt'), 'utf8')).toBe('late')
    await b.stop()
  })

  it('leaves marker and store as they are when the run is abandoned, and writes nothing any more', async () => {
    const host = await TestHost.boot()
    await host.turn('t1')
    host.write('files/late.txt', 'late')
    const calls = host.backend.faults.calls.length
    await host.kill()
    await host.durability.finish({ clean: true })
    await host.durability.abandon()
    await host.clock.advance(600_000)
    expect(host.backend.faults.calls).toHaveLength(calls)
    expect(host.backend.objects.has(OWNER)).toBe(true)
    expect(host.clock.pendingTimers).toBe(0)
    await expect(host.durability.snapshot('request')).rejects.toMatchObject({ code: 'CLOSED' })
  })

  it('may come twice, and without a boot', async () => {
    const host = await TestHost.boot()
    await host.stop()
    await host.durability.finish({ clean: true })
    const never = new TestHost()
    await never.durability.finish({ clean: false })
    await never.durability.abandon()
    const neverEither = new TestHost()
    await neverEither.durability.abandon()
    expect(neverEither.backend.faults.calls).toEqual([])
  })

  it('takes no snapshot after a boot that failed, and gives the session free', async () => {
    const host = await TestHost.boot()
    await host.durability.detachInputs()
    await host.durability.finish({ clean: false })
    expect(host.backend.objects.has(OWNER)).toBe(false)
    expect(host.backend.objects.has(MANIFEST)).toBe(false)
    await host.kill()
  })

  it('is bounded when the store never answers', async () => {
    const host = await TestHost.boot()
    await host.turn('t1')
    host.backend.faults.hang(() => true, { ignoreSignal: true })
    const startedAt = host.clock.now()
    await elapse(host.stop(10_000), host.clock, 250)
    expect(host.clock.now() - startedAt).toBeLessThanOrEqual(20_000)
    expect(host.logged('warn').length).toBeGreaterThan(0)
  })

  it('leaves a tree that a power loss can not have torn, also when the store keeps it waiting until it is cut', async () => {
    const host = await TestHost.boot()
    await host.turn('t1')
    host.backend.faults.hang(() => true, { ignoreSignal: true })
    await elapse(host.stop(10_000), host.clock, 250)
    const record = readFileSync(join(dirname(host.dir), '.machine', `${basename(host.dir)}.jsonl`), 'utf8')
    expect(JSON.parse(record)).toMatchObject({ clean: true, stored: false })
  })

  it('rejects under strict when the last snapshot failed, and has released everything', async () => {
    const host = await TestHost.boot({ policy: 'strict' })
    host.backend.faults.failWhen(({ op }) => op === 'put')
    await expect(host.stop()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await expect(host.test.store.flush()).rejects.toMatchObject({ code: 'CLOSED' })
  })

  it('rejects under strict when the last flush failed', async () => {
    const host = await TestHost.boot({ policy: 'strict' })
    await host.turn('t1')
    let flushes = 0
    host.backend.faults.failWhen(({ op }) => op === 'flush' && ++flushes === 4)
    await expect(host.stop()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(flushes).toBe(4)
  })

  it('only warns under degrade', async () => {
    const host = await TestHost.boot()
    host.backend.faults.failWhen(({ op }) => op === 'put' || op === 'flush')
    await host.stop()
    expect(host.logged('warn')).toContain('the end of the session is not stored; its local tree is')
  })

  it('does not mind that the marker may not be deleted', async () => {
    const host = await TestHost.boot({ policy: 'strict' })
    host.backend.faults.failWhen(
      ({ op }) => op === 'delete',
      Object.assign(new Error('denied'), { errorClass: 'permission' }),
    )
    await host.stop()
    expect(host.logged('warn')).toHaveLength(1)
  })
})

describe('under degrade', () => {
  it('an outage costs no turn, is reported once, and ends by itself on an idle session', async () => {
    const host = await TestHost.boot()
    await host.turn('t1')
    host.backend.faults.failWhen(() => true)
    for (const id of ['t2', 't3', 't4']) {
      expect(await host.input()).toEqual({ vetoed: false })
      await host.turn(id)
    }
    expect(host.seen('session.storage.degraded')).toEqual([
      {
        _schema_version: 1,
        session_id: 's1',
        backend: 'memory-test',
        failure_policy: 'degrade',
        since: new Date(host.clock.now()).toISOString(),
        consecutive_failures: 1,
        queued_pushes: 0,
        dropped_pushes: 0,
        snapshot_pending: true,
        turns_blocked: false,
        error: expect.stringContaining('injected outage') as string,
      },
    ])
    expect(host.seen('core.error')).toEqual([])
    expect(host.durability.status()).toMatchObject({ degraded: true, consecutiveFailures: 3, snapshotPending: true })
    host.backend.faults.heal()
    await elapse(untilRecovered(host), host.clock)
    expect(host.seen('session.storage.recovered')).toMatchObject([
      { failures: 3, retry_attempts: 1, dropped_pushes: 0 },
    ])
    expect(host.seen('session.snapshot.result').at(-1)).toMatchObject({ trigger: 'retry', ok: true })
    expect(host.durability.status()).toMatchObject({ degraded: false, snapshotPending: false })
    expect(host.clock.pendingTimers).toBe(1)
    await host.kill()
    await expectSameOnFreshHost(host)
  })

  it('commit() rejects while the store is down', async () => {
    const host = await TestHost.boot()
    host.backend.faults.failWhen(() => true)
    await expect(host.durability.snapshot('request')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await host.kill()
  })
})

describe('under strict', () => {
  it('refuses input from the failed snapshot on, with its error as the reason, until one succeeds', async () => {
    const host = await TestHost.boot({ policy: 'strict' })
    await host.turn('t1')
    host.backend.faults.failWhen(() => true, new Error('the bucket is on fire'))
    await host.turn('t2')
    expect(host.seen('core.error')).toMatchObject([{ source: 'core.object_store', fatal: false }])
    expect(host.seen('session.storage.degraded')).toMatchObject([{ turns_blocked: true, failure_policy: 'strict' }])
    expect(await host.input()).toEqual({
      vetoed: true,
      reason: expect.stringContaining('the bucket is on fire') as string,
    })
    await expect(host.durability.snapshot('request')).rejects.toThrow('the bucket is on fire')
    expect(host.seen('core.error')).toHaveLength(2)
    expect(host.seen('session.storage.degraded')).toHaveLength(1)
    host.backend.faults.heal()
    await elapse(untilRecovered(host), host.clock)
    expect(await host.input()).toEqual({ vetoed: false })
    expect(host.durability.status()).toMatchObject({ inputsRefused: 1, turnsBlocked: false })
    await host.stop()
    await expectSameOnFreshHost(host)
  })

  it('still lets a handler before the gate have its way', async () => {
    const host = await TestHost.boot({ policy: 'strict' })
    host.backend.faults.failWhen(() => true)
    await host.turn('t1')
    const seen: string[] = []
    host.bus.subscribe('before:io.input', () => void seen.push('cancel'), { priority: 5 })
    await host.input('/cancel')
    expect(seen).toEqual(['cancel'])
    await host.kill()
  })
})

function untilRecovered(host: TestHost): Promise<void> {
  return new Promise((resolve) => {
    host.bus.subscribe('session.storage.recovered', () => resolve())
  })
}

async function nothing(): Promise<void> {}

function isJournal(path: string): boolean {
  return path.startsWith('journal/')
}

/** What the store holds is what the host has on its disk. */
async function expectSameOnFreshHost(host: TestHost): Promise<void> {
  const { store } = newStore({ of: host.backend })
  const sessionsRoot = newDir('fresh')
  await hydrateSession({
    layout: layoutOf(store, 's1'),
    sessionId: 's1',
    sessionsRoot,
    prepareStaging: nothing,
    onMixed: 'fail',
  })
  expect(fingerprint(join(sessionsRoot, 's1'), isJournal)).toEqual(fingerprint(host.dir, isJournal))
}
