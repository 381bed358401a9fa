import { describe, expect, it } from 'vitest'
import { keepingLogger } from '@nexus/host/testing'
import { elapse, newDir, newStore, plant, storedText, until, type TestStore } from '../../test/memory-store.ts'
import { serializeOwnerMarker, type OwnerMarker } from './owner-marker.ts'
import { SessionOwner } from './owner.ts'

const KEY = 'sessions/s1.owner/owner.json'

async function noConfirm(): Promise<void> {}

function newOwner(
  test: TestStore,
  { instanceId = 'ours', host = 'a', pid = 100, running = [] as number[], confirm = noConfirm } = {},
) {
  const logger = keepingLogger()
  const conflicts: OwnerMarker[] = []
  const owner = new SessionOwner({
    store: test.store,
    sessionId: 's1',
    sessionsRoot: newDir('owner'),
    identity: { host, pid, instanceId, processStartedAtMs: test.clock.now() - 1_000 },
    clock: test.clock,
    logger,
    heartbeatMs: 30_000,
    staleMs: 300_000,
    confirm: () => confirm(),
    onConflict: (holder) => void conflicts.push(holder),
    isRunning: (each) => running.includes(each),
  })
  return { owner, logger, conflicts }
}

function held(test: TestStore): Record<string, unknown> | undefined {
  const text = storedText(test.backend, KEY)
  return text === undefined ? undefined : (JSON.parse(text) as Record<string, unknown>)
}

function plantTheirs(test: TestStore, overrides: Partial<OwnerMarker> = {}): void {
  const at = new Date(test.clock.now() - 1_000).toISOString()
  const marker = {
    sessionId: 's1',
    host: 'b',
    pid: 7,
    instanceId: 'theirs',
    claimedAt: at,
    heartbeatAt: at,
    ...overrides,
  }
  plant(test.backend, KEY, serializeOwnerMarker(marker, 'sessions/s1'))
}

/** Lets the time of a heartbeat come, and waits for what it does. */
async function beat(test: TestStore, done: () => boolean): Promise<void> {
  await test.clock.advance(30_000)
  await until(done, 'the heartbeat')
}

/** Ours, and as new as the clock. */
function isRenewed(test: TestStore): boolean {
  const marker = held(test)
  return marker?.['instance_id'] === 'ours' && Date.parse(marker['heartbeat_at'] as string) === test.clock.now()
}

describe('the owner marker of a run', () => {
  it('is read before it is written', async () => {
    const test = newStore()
    const { owner, conflicts } = newOwner(test)
    await owner.claim()
    expect(test.backend.faults.calls.map(({ op, key }) => [op, key])).toEqual([
      ['get', KEY],
      ['put', KEY],
    ])
    expect(held(test)).toMatchObject({ instance_id: 'ours', host: 'a', pid: 100, key_prefix: 'sessions/s1' })
    expect(owner.verdict).toBe('free')
    expect(conflicts).toEqual([])
  })

  it('is read by hydrating its prefix when the backend has no get', async () => {
    const test = newStore({ absent: ['get'] })
    plantTheirs(test)
    const { owner, conflicts } = newOwner(test)
    await owner.claim()
    expect(test.backend.faults.calls.map(({ op, key }) => [op, key])).toEqual([
      ['list', 'sessions/s1.owner'],
      ['hydrate', 'sessions/s1.owner'],
      ['put', KEY],
    ])
    expect(conflicts).toHaveLength(1)
  })

  it('reports a live holder once, and claims over it: nothing is refused', async () => {
    const test = newStore()
    plantTheirs(test)
    const { owner, logger, conflicts } = newOwner(test)
    await owner.claim()
    await owner.claim()
    expect(conflicts.map(({ instanceId }) => instanceId)).toEqual(['theirs'])
    expect(logger.lines.filter(({ level }) => level === 'error')).toHaveLength(1)
    expect(held(test)?.['instance_id']).toBe('ours')
  })

  it('takes over in silence from a process of this host that is gone', async () => {
    const test = newStore()
    plantTheirs(test, { host: 'a' })
    const { owner, logger, conflicts } = newOwner(test)
    await owner.claim()
    expect(owner.verdict).toBe('crashed')
    expect(conflicts).toEqual([])
    expect(logger.lines).toEqual([])
  })

  it('says at info that it takes over from a holder that stopped beating', async () => {
    const test = newStore()
    plantTheirs(test, { heartbeatAt: new Date(test.clock.now() - 300_001).toISOString() })
    const { owner, logger, conflicts } = newOwner(test)
    await owner.claim()
    expect(conflicts).toEqual([])
    expect(logger.lines.map(({ level }) => level)).toEqual(['info'])
  })

  it('is renewed every 30 s, keeping when it was claimed', async () => {
    const test = newStore()
    const { owner } = newOwner(test)
    await owner.claim()
    const first = held(test)
    owner.start()
    await beat(test, () => isRenewed(test))
    await until(() => test.clock.pendingTimers === 1, 'the next heartbeat')
    await beat(test, () => isRenewed(test))
    expect(held(test)?.['claimed_at']).toBe(first?.['claimed_at'])
    await owner.stop()
    expect(test.clock.pendingTimers).toBe(0)
  })

  it('is left alone by a heartbeat that finds another instance, which is a conflict', async () => {
    const test = newStore()
    const { owner, conflicts } = newOwner(test)
    await owner.claim()
    owner.start()
    plantTheirs(test, { heartbeatAt: new Date(test.clock.now() + 30_000).toISOString() })
    await beat(test, () => conflicts.length === 1)
    const reads = (): number => test.backend.faults.calls.filter(({ op }) => op === 'get').length
    const before = reads()
    await until(() => test.clock.pendingTimers === 1, 'the next heartbeat')
    await beat(test, () => reads() > before)
    expect(test.backend.faults.calls.filter(({ op }) => op === 'put')).toHaveLength(1)
    expect(held(test)?.['instance_id']).toBe('theirs')
    await owner.stop()
    await owner.release()
    expect(held(test)?.['instance_id']).toBe('theirs')
  })

  it('is not renewed when somebody else has committed, or it can not be known', async () => {
    const test = newStore()
    let asked = 0
    const { owner } = newOwner(test, { confirm: () => Promise.reject(new Error(`no ${++asked}`)) })
    await owner.claim()
    expect(asked).toBe(0)
    owner.start()
    await beat(test, () => asked === 1)
    await until(() => test.clock.pendingTimers === 1, 'the next heartbeat')
    await beat(test, () => asked === 2)
    expect(test.backend.faults.calls.filter(({ op }) => op === 'put')).toHaveLength(1)
    await owner.stop()
  })

  it('is removed at the end while it is ours', async () => {
    const test = newStore()
    const { owner } = newOwner(test)
    await owner.claim()
    await owner.stop()
    await owner.release()
    expect(held(test)).toBeUndefined()
  })

  it('is not looked at by the end of a run that never wrote one', async () => {
    const test = newStore()
    const { owner } = newOwner(test)
    await owner.release()
    expect(test.backend.faults.calls).toEqual([])
  })

  it.each(['', 'garbage', '{"_schema_version":77}', 'x'.repeat(100_000)])(
    'never fails a boot when it holds garbage, and is replaced (%#)',
    async (garbage) => {
      const test = newStore()
      plant(test.backend, KEY, garbage)
      const { owner, logger, conflicts } = newOwner(test)
      await owner.claim()
      expect(conflicts).toEqual([])
      expect(logger.lines.map(({ level }) => level)).toEqual(['warn'])
      expect(held(test)?.['instance_id']).toBe('ours')
    },
  )

  it('never fails a boot when it may not be read, and is written all the same', async () => {
    const test = newStore()
    test.backend.faults.failWhen(
      ({ op }) => op === 'get',
      Object.assign(new Error('403'), { errorClass: 'permission' }),
    )
    const { owner } = newOwner(test)
    await owner.claim()
    expect(held(test)?.['instance_id']).toBe('ours')
  })

  it('waits for the next heartbeat when the store is down, and claims then with the verdict of a boot', async () => {
    const test = newStore()
    plantTheirs(test)
    test.backend.faults.failWhen(() => true)
    const { owner, logger, conflicts } = newOwner(test)
    await owner.claim()
    expect(test.backend.faults.calls).toHaveLength(1)
    expect(logger.lines.map(({ level }) => level)).toEqual(['warn'])
    test.backend.faults.heal()
    owner.start()
    await beat(test, () => isRenewed(test))
    expect(conflicts).toHaveLength(1)
    await owner.stop()
  })

  it('costs a boot one deadline at most when the store never answers', async () => {
    const test = newStore()
    test.backend.faults.hang(() => true, { ignoreSignal: true })
    const { owner } = newOwner(test)
    const startedAt = test.clock.now()
    await elapse(owner.claim(), test.clock)
    expect(test.clock.now() - startedAt).toBeLessThan(40_000)
  })

  it('ends while a heartbeat hangs', async () => {
    const test = newStore()
    const { owner } = newOwner(test)
    await owner.claim()
    test.backend.faults.hang()
    owner.start()
    await test.clock.advance(30_000)
    await owner.stop()
    expect(held(test)?.['instance_id']).toBe('ours')
  })

  it('is only warned about when it can not be removed', async () => {
    const test = newStore()
    const { owner, logger } = newOwner(test)
    await owner.claim()
    test.backend.faults.failWhen(
      ({ op }) => op === 'delete',
      Object.assign(new Error('denied'), { errorClass: 'permission' }),
    )
    await owner.release()
    expect(logger.lines.map(({ level }) => level)).toEqual(['warn'])
  })
})
