import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { elapse, storedText, until } from '../../test/memory-store.ts'
import { TestHost } from '../../test/test-host.ts'

const MANIFEST = 'sessions/s1.manifest/manifest.json'

function recovered(host: TestHost): Promise<void> {
  return new Promise((resolve) => {
    host.bus.subscribe('session.storage.recovered', () => resolve())
  })
}

describe('a retry', () => {
  it('never stores half a turn: it waits for the end of one that is under way', async () => {
    const host = await TestHost.boot()
    host.backend.faults.failWhen(() => true)
    await host.turn('t1')
    await host.bus.emit('agent.turn.start', { turn_id: 't2', session_id: 's1' })
    host.write('files/half.txt', 'half')
    host.backend.faults.heal()
    await host.clock.advance(300_000)
    expect(host.backend.objects.has(MANIFEST)).toBe(false)
    await host.bus.emit('agent.turn.end', { turn_id: 't2', session_id: 's1' })
    expect(host.seen('session.snapshot.result').map(({ trigger, ok }) => [trigger, ok])).toEqual([
      ['turn', false],
      ['turn', true],
    ])
    expect(host.seen('session.storage.recovered')).toHaveLength(1)
    await host.stop()
  })

  it('gives way when a turn begins while it is storing, without counting as a failure', async () => {
    const host = await TestHost.boot()
    host.backend.faults.failWhen(() => true)
    await host.turn('t1')
    host.backend.faults.heal()
    host.backend.faults.hang(({ key }) => key === MANIFEST)
    await host.clock.advance(1_000)
    await until(() => host.backend.faults.calls.at(-1)?.key === MANIFEST, 'the retry')
    const failures = host.durability.status().consecutiveFailures
    await host.input()
    host.backend.faults.heal()
    await host.turn('t2')
    expect(host.seen('session.snapshot.result').map(({ trigger, ok }) => [trigger, ok])).toEqual([
      ['turn', false],
      ['turn', true],
    ])
    expect(failures).toBe(1)
    expect(host.seen('session.storage.recovered')).toMatchObject([{ failures: 1 }])
    await host.stop()
  })

  it('that waited behind a slow snapshot gives way when a turn has begun meanwhile', async () => {
    const host = await TestHost.boot()
    host.backend.faults.failWhen(({ op }) => op === 'put')
    await host.turn('t1')
    host.backend.faults.heal()
    host.backend.faults.hang(({ key, op }) => key === MANIFEST && op === 'put')
    const commit = host.durability.snapshot('request')
    await until(() => host.backend.faults.calls.at(-1)?.key === MANIFEST, 'the commit')
    await until(() => host.backend.faults.calls.at(-1)?.op === 'put', 'the put of the manifest')
    await host.clock.advance(1_000)
    await host.bus.emit('agent.turn.start', { turn_id: 't2', session_id: 's1' })
    host.write('files/half.txt', 'half')
    host.backend.faults.heal()
    await commit
    await host.durability.lastWords()
    await host.clock.advance(60_000)
    await host.durability.lastWords()
    expect(host.seen('session.snapshot.result').map(({ trigger, ok }) => [trigger, ok])).toEqual([
      ['turn', false],
      ['request', true],
    ])
    expect(storedText(host.backend, MANIFEST)).not.toContain('files/half.txt')
    await host.stop()
  })

  it.each(['degrade', 'strict'] as const)('is not disabled by a turn that never ends (%s)', async (policy) => {
    const host = await TestHost.boot({ policy })
    await host.bus.emit('agent.turn.start', { turn_id: 'its agent threw', session_id: 's1' })
    host.backend.faults.failWhen(({ op }) => op === 'put')
    await host.turn('t2')
    host.backend.faults.heal()
    const back = recovered(host)
    await elapse(back, host.clock, 60_000)
    expect(storedText(host.backend, MANIFEST)).toContain('files/turn.txt')
    expect(await host.input()).toEqual({ vetoed: false })
    await host.stop()
  })

  it('is not given up: an outage of a day ends when the store is back', async () => {
    const host = await TestHost.boot()
    host.backend.faults.failWhen(() => true)
    await host.turn('t1')
    for (let hour = 0; hour < 24; hour++) {
      await elapse(host.clock.advance(3_600_000), host.clock, 60_000)
    }
    expect(host.seen('session.storage.degraded')).toHaveLength(1)
    host.backend.faults.heal()
    await elapse(recovered(host), host.clock)
    expect(host.durability.status().degraded).toBe(false)
    await host.stop()
  })

  it('counts one outage, and then the next', async () => {
    const host = await TestHost.boot()
    for (const id of ['t1', 't2']) {
      host.backend.faults.failWhen(() => true)
      await host.turn(id)
      host.backend.faults.heal()
      await host.turn(`${id}-again`)
    }
    expect(host.events.filter(({ type }) => type.startsWith('session.storage.')).map(({ type }) => type)).toEqual([
      'session.storage.degraded',
      'session.storage.recovered',
      'session.storage.degraded',
      'session.storage.recovered',
    ])
    await host.stop()
  })

  it('does not run before plugins are up, however early the store failed', async () => {
    const host = await TestHost.boot()
    await host.turn('t1')
    await host.kill()
    host.backend.faults.failWhen(() => true)
    const resumed = new TestHost({ disk: host.disk, backend: host.backend })
    resumed.durability.raiseDeferred = () => Promise.resolve()
    await resumed.boot()
    host.backend.faults.heal()
    const calls = host.backend.faults.calls.filter(({ op }) => op === 'put').length
    await resumed.clock.advance(20_000)
    expect(host.backend.faults.calls.filter(({ op }) => op === 'put')).toHaveLength(calls)
    expect(resumed.seen('session.storage.degraded')).toEqual([])
    await resumed.kill()
  })
})

describe('a store that accepts and never answers', () => {
  it.each(['degrade', 'strict'] as const)(
    'is an outage within bounded time, not a hang of the turn (%s)',
    async (policy) => {
      const host = await TestHost.boot({ policy })
      await host.turn('t1')
      host.backend.faults.hang(() => true, { ignoreSignal: true })
      const startedAt = host.clock.now()
      await elapse(host.turn('t2'), host.clock)
      expect(host.clock.now() - startedAt).toBeLessThan(60_000)
      expect(host.seen('session.storage.degraded')).toHaveLength(1)
      host.backend.faults.heal()
      await elapse(recovered(host), host.clock)
      await elapse(host.stop(), host.clock)
    },
  )
})

describe('shared stores and the session', () => {
  it('are stored after the commit, and logged apart', async () => {
    const host = await TestHost.boot()
    await host.turn('t1', () => host.storage.open('app', 'nexus.budget').put('spent', '3'))
    const puts = host.backend.faults.calls
      .filter(({ op }) => op === 'put' || op === 'putIfAbsent')
      .map(({ key }) => key)
    expect(puts.indexOf('plugins/nexus.budget/store.db')).toBeGreaterThan(puts.indexOf('sessions/s1.snapshot.json'))
    expect(host.lines.find(({ message }) => message === 'the session is stored')?.fields).toMatchObject({
      shared_objects: 1,
    })
    await host.stop()
  })

  it('never hold back a session that is durable, and no turn: they are retried on their own', async () => {
    const host = await TestHost.boot({ policy: 'strict' })
    host.backend.faults.failWhen(({ key }) => key.startsWith('plugins/'))
    await host.turn('t1', () => host.storage.open('app', 'nexus.budget').put('spent', '3'))
    expect(host.seen('session.snapshot.result')).toMatchObject([{ ok: true }])
    expect(host.seen('session.storage.degraded')).toMatchObject([{ turns_blocked: false }])
    expect(host.seen('core.error')).toEqual([])
    expect(await host.input()).toEqual({ vetoed: false })
    await host.turn('t2')
    host.backend.faults.heal()
    await elapse(recovered(host), host.clock)
    expect(host.backend.objects.has('plugins/nexus.budget/store.db')).toBe(true)
    await host.stop()
  })

  it('are looked for again after a boot that could not, and open then', async () => {
    const a = await TestHost.boot()
    await a.turn('t1')
    await a.kill()
    a.backend.faults.failWhen(({ key }) => key.startsWith('plugins'))
    const b = await TestHost.boot({ disk: a.disk, backend: a.backend })
    expect(() => b.storage.open('app', 'nexus.budget')).toThrow(expect.objectContaining({ code: 'UNAVAILABLE' }))
    expect(b.seen('session.storage.degraded')).toHaveLength(1)
    a.backend.faults.heal()
    await elapse(recovered(b), b.clock)
    expect(b.storage.open('app', 'nexus.budget').list()).toEqual([])
    await b.stop()
  })

  it('come with the session to another host', async () => {
    const a = await TestHost.boot({ agentId: 'agent-1' })
    await a.turn('t1', () => {
      a.storage.open('app', 'nexus.budget').put('spent', '3')
      a.storage.open('agent', 'nexus.memory').put('fact', 'sky is blue')
    })
    await a.kill()
    const b = await TestHost.boot({ backend: a.backend, agentId: 'agent-1' })
    expect(b.storage.open('app', 'nexus.budget').get('spent')?.toString()).toBe('3')
    expect(b.storage.open('agent', 'nexus.memory').get('fact')?.toString()).toBe('sky is blue')
    await b.stop()
  })
})

describe('the owner marker and the run', () => {
  it('reports a live holder once, when plugins are up, also where hydration was skipped', async () => {
    const a = await TestHost.boot()
    await a.turn('t1')
    const cold = await TestHost.boot({ backend: a.backend })
    expect(cold.seen('session.owner.conflict')).toMatchObject([
      { session_id: 's1', holder_pid: process.pid, heartbeat_age_seconds: 0, local_pid: process.pid },
    ])
    await cold.kill()
    // Another process of this machine would not find the journal open in its own.
    await a.journal.close()
    const warm = await TestHost.boot({ backend: a.backend, disk: a.disk })
    expect(warm.resolution?.tree).toBe('local')
    expect(warm.seen('session.owner.conflict')).toHaveLength(1)
    await warm.stop()
    await a.kill()
  })

  it('is quiet after a stop, and after an abandon once the marker is old', async () => {
    const a = await TestHost.boot()
    await a.turn('t1')
    await a.stop()
    const b = await TestHost.boot({ backend: a.backend })
    expect(b.seen('session.owner.conflict')).toEqual([])
    await b.turn('t2')
    await b.kill()
    await b.clock.advance(300_001)
    const c = await TestHost.boot({ backend: a.backend, clock: b.clock })
    expect(c.seen('session.owner.conflict')).toEqual([])
    expect(c.durability.status().owner).toBe('takeover')
    await c.stop()
  })

  it('raises the conflict in mid-run when a heartbeat finds another marker', async () => {
    const a = await TestHost.boot()
    const b = await TestHost.boot({ backend: a.backend })
    await a.clock.advance(30_000)
    await until(() => a.seen('session.owner.conflict').length === 1, 'the conflict')
    await a.clock.advance(30_000)
    expect(a.seen('session.owner.conflict')).toHaveLength(1)
    await b.kill()
    await a.kill()
  })
})

describe('the journal of a committed session', () => {
  it('hears which sealed segments are taken', async () => {
    const a = await TestHost.boot({ rotateBytes: 1 })
    for (const id of ['t1', 't2', 't3']) await a.turn(id)
    await a.stop()
    const sealed = [...a.backend.objects.keys()].filter((key) => /events-\d+\.jsonl\.zst$/.test(key))
    expect(sealed.length).toBeGreaterThan(1)
    const b = await TestHost.boot({ backend: a.backend, rotateBytes: 1 })
    expect(b.durability.committedSegment).toBe(sealed.length)
    await b.turn('t4')
    await b.turn('t5')
    await b.stop()
    const manifest = JSON.parse(storedText(a.backend, MANIFEST) ?? '{}') as { objects: string[] }
    for (const key of sealed) expect(manifest.objects).toContain(key.slice('sessions/s1/'.length))
    expect(readFileSync(join(b.dir, 'journal', 'header.json'), 'utf8')).toContain('s1')
  })
})
