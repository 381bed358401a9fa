import { describe, expect, it } from 'vitest'
import { gate, keepingLogger, ManualClock, settle } from '@nexus/host/testing'
import { RecoveryWorker, type DeferredPush, type RecoveryActions } from './recovery.ts'

function newWorker({ random = () => 0, queueLimit = 256 }: { random?: () => number; queueLimit?: number } = {}) {
  const clock = new ManualClock()
  const startMs = clock.now()
  const log: string[] = []
  const world = { up: false, mayTakeSnapshot: true, attempts: [] as number[], drained: 0, paid: 0 }
  let worker: RecoveryWorker | undefined
  const actions: RecoveryActions = {
    mayTakeSnapshot: () => world.mayTakeSnapshot,
    takeSnapshot: () => {
      log.push('snapshot')
      const mark = worker?.mark() ?? 0
      if (world.up) worker?.snapshotStored(mark)
      return Promise.resolve(world.up)
    },
    push: ({ path }) => {
      log.push(`put ${path}`)
      return Promise.resolve(world.up)
    },
    flush: () => {
      log.push('flush')
      return Promise.resolve(world.up)
    },
    repairShared: () => {
      log.push('shared')
      return Promise.resolve(world.up)
    },
    attempting: () => void world.attempts.push(clock.now() - startMs),
    drained: (pushes) => void (world.drained += pushes),
    paid: () => {
      world.paid += 1
      return Promise.resolve()
    },
  }
  worker = new RecoveryWorker({
    clock,
    random,
    logger: keepingLogger(),
    firstDelayMs: 1_000,
    maxDelayMs: 60_000,
    queueLimit,
    actions,
  })
  return { worker, actions, clock, log, world }
}

function push(name: string): DeferredPush {
  return { path: name, localPath: `/x/${name}` }
}

describe('the recovery worker', () => {
  it('retries after 1 s, doubling to 60 s', async () => {
    const { worker, clock, world } = newWorker()
    worker.oweSnapshot()
    await clock.advance(400_000)
    const gaps = world.attempts.map((at, index) => at - (world.attempts[index - 1] ?? 0))
    expect(gaps.slice(0, 10)).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60, 60].map((seconds) => seconds * 1_000))
  })

  it('shortens each delay by up to half, at random', async () => {
    const draws = [0.5, 1 - Number.EPSILON, 0.25]
    const { worker, clock, world } = newWorker({ random: () => draws.shift() ?? 0 })
    worker.oweSnapshot()
    await clock.advance(6_000)
    expect(world.attempts.slice(0, 3).map(Math.round)).toEqual([750, 1_750, 5_250])
  })

  it('starts over with 1 s when a snapshot was stored', async () => {
    const { worker, clock, world } = newWorker()
    worker.oweSnapshot()
    await clock.advance(7_000)
    world.up = true
    await clock.advance(8_000)
    expect(worker.owesAnything).toBe(false)
    expect(clock.pendingTimers).toBe(0)
    world.up = false
    const before = world.attempts.length
    worker.oweSnapshot()
    await clock.advance(1_000)
    expect(world.attempts).toHaveLength(before + 1)
  })

  it('takes no snapshot in the middle of a turn, and does not count waiting as an attempt', async () => {
    const { worker, clock, log, world } = newWorker()
    world.mayTakeSnapshot = false
    worker.oweSnapshot()
    await clock.advance(30_000)
    expect(log).toEqual([])
    expect(world.attempts).toEqual([])
    world.mayTakeSnapshot = true
    world.up = true
    await clock.advance(1_000)
    expect(log).toEqual(['snapshot'])
  })

  it('drains the queue in order, flushes, and only then forgets', async () => {
    const { worker, clock, log, world } = newWorker()
    worker.owePush(push('a'))
    worker.owePush(push('b'))
    await clock.advance(1_000)
    expect(log).toEqual(['put a'])
    expect(worker.queued).toBe(2)
    world.up = true
    await clock.advance(2_000)
    expect(log.slice(1)).toEqual(['put a', 'put b', 'flush'])
    expect(worker.queued).toBe(0)
    expect(world.drained).toBe(2)
  })

  it('keeps pushes whose flush failed', async () => {
    const { worker, clock, actions, world } = newWorker()
    world.up = true
    actions.flush = () => Promise.resolve(false)
    worker.owePush(push('a'))
    await clock.advance(1_000)
    expect(worker.queued).toBe(1)
  })

  it('owes a whole snapshot when the queue overflows, and loses nothing', async () => {
    const { worker, clock, log, world } = newWorker({ queueLimit: 256 })
    for (let i = 0; i < 300; i++) worker.owePush(push(`blob-${i}`))
    expect(worker.queued).toBe(256)
    expect(worker.dropped).toBe(44)
    expect(worker.snapshotOwed).toBe(true)
    world.up = true
    await clock.advance(1_000)
    expect(log).toEqual(['snapshot'])
    expect(world.drained).toBe(256)
    expect(worker.owesAnything).toBe(false)
  })

  it('counts a key once, however often it fails', () => {
    const { worker } = newWorker({ queueLimit: 1 })
    worker.owePush(push('a'))
    worker.owePush(push('a'))
    expect(worker.queued).toBe(1)
    expect(worker.snapshotOwed).toBe(false)
  })

  it('takes only what was owed before a snapshot started as covered by it', () => {
    const { worker } = newWorker()
    worker.owePush(push('before'))
    worker.oweSnapshot()
    const mark = worker.mark()
    worker.owePush(push('during'))
    worker.snapshotStored(mark)
    expect(worker.queued).toBe(1)
    expect(worker.snapshotOwed).toBe(false)
    worker.oweSnapshot()
    worker.snapshotStored(mark)
    expect(worker.snapshotOwed).toBe(true)
  })

  it('repairs shared stores after the session, and only between turns', async () => {
    const { worker, clock, log, world } = newWorker()
    world.up = true
    world.mayTakeSnapshot = false
    worker.oweShared()
    await clock.advance(3_000)
    expect(log).toEqual([])
    world.mayTakeSnapshot = true
    worker.oweSnapshot()
    await clock.advance(3_000)
    expect(log).toEqual(['snapshot', 'shared'])
    expect(worker.owesAnything).toBe(false)
  })

  it('stops cleanly: no timer is left, and a running attempt is aborted and awaited', async () => {
    const { worker, clock, actions, world } = newWorker()
    const held = gate<boolean>()
    let aborted = false
    world.up = true
    actions.push = (_push, signal) => {
      signal.addEventListener('abort', () => {
        aborted = true
        held.open(false)
      })
      return held.promise
    }
    worker.owePush(push('a'))
    await clock.advance(1_000)
    await worker.stop()
    expect(aborted).toBe(true)
    expect(clock.pendingTimers).toBe(0)
    worker.oweSnapshot()
    expect(clock.pendingTimers).toBe(0)
  })

  it('never keeps a process alive', () => {
    const clock = new ManualClock()
    let unrefs = 0
    const { actions } = newWorker()
    const worker = new RecoveryWorker({
      clock: {
        now: () => clock.now(),
        setTimeout: () => ({ unref: () => void (unrefs += 1) }),
        clearTimeout: () => undefined,
      },
      random: () => 0,
      logger: keepingLogger(),
      firstDelayMs: 1_000,
      maxDelayMs: 60_000,
      queueLimit: 1,
      actions,
    })
    worker.oweSnapshot()
    expect(unrefs).toBe(1)
  })

  it('survives an action that throws, and goes on', async () => {
    const { worker, clock, actions, world } = newWorker()
    actions.takeSnapshot = () => Promise.reject(new Error('a bug'))
    worker.oweSnapshot()
    await clock.advance(3_000)
    await settle()
    expect(world.attempts).toEqual([1_000, 3_000])
  })

  it('owes nothing once it was forgiven', async () => {
    const { worker, clock, log } = newWorker()
    worker.owePush(push('a'))
    worker.oweSnapshot()
    worker.oweShared()
    worker.forgive()
    await clock.advance(100_000)
    expect(log).toEqual([])
    expect(clock.pendingTimers).toBe(0)
  })
})
