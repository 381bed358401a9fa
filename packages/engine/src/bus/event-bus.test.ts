import { NexusError } from '@nexus/errors'
import * as fc from 'fast-check'
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { gate, never, settle } from '@nexus/host/testing'
import { newBus } from '../../test/bus-fixture.ts'

describe('dispatch', () => {
  it('runs typed handlers in ascending priority, equal ones as subscribed, wildcards last', async () => {
    const { bus } = newBus()
    const ran: string[] = []
    bus.subscribeAll(() => ran.push('wild 1'))
    bus.subscribe('x', () => ran.push('p10 first'), { priority: 10 })
    bus.subscribe('x', () => ran.push('p0'))
    bus.subscribe('x', () => ran.push('p10 second'), { priority: 10 })
    bus.subscribe('x', () => ran.push('p-5'), { priority: -5 })
    bus.subscribeAll(() => ran.push('wild 2'))
    await bus.emit('x', 1)
    expect(ran).toEqual(['p-5', 'p0', 'p10 first', 'p10 second', 'wild 1', 'wild 2'])
  })

  it('starts a handler only when the one before it has settled', async () => {
    const { bus } = newBus()
    const slow = gate()
    const ran: string[] = []
    bus.subscribe('x', async () => {
      await slow.promise
      ran.push('slow')
    })
    bus.subscribe('x', () => ran.push('next'), { priority: 1 })
    bus.subscribeAll(() => ran.push('wild'))
    let done = false
    const emitted = bus.emit('x', 1).then(() => (done = true))
    await settle()
    expect(ran).toEqual([])
    expect(done).toBe(false)
    slow.open()
    await emitted
    expect(ran).toEqual(['slow', 'next', 'wild'])
  })

  it('keeps events from waiting for each other', async () => {
    const { bus } = newBus()
    bus.subscribe('stuck', () => never)
    const ran: string[] = []
    bus.subscribe('free', () => ran.push('free'))
    void bus.emit('stuck', 1)
    await bus.emit('free', 1)
    expect(ran).toEqual(['free'])
  })

  it('finishes synchronous handlers before emit returns and shares one promise', () => {
    const { bus } = newBus()
    let ran = 0
    bus.subscribe('x', () => ran++)
    const first = bus.emit('x', 1)
    expect(ran).toBe(1)
    expect(bus.emit('x', 2)).toBe(first)
    expect(bus.outstanding).toBe(0)
  })

  it('gives every event an own id of 26 characters that ascends, and a time with milliseconds', async () => {
    const { bus, clock } = newBus()
    const seen: { id: string; timestamp: string }[] = []
    bus.subscribeAll(({ id, timestamp }) => seen.push({ id, timestamp }))
    for (let i = 0; i < 3000; i++) void bus.emit('x', i)
    await clock.advance(7)
    void bus.emit('x', 0)
    const ids = seen.map(({ id }) => id)
    expect(new Set(ids).size).toBe(3001)
    expect(ids.toSorted()).toEqual(ids)
    expect(ids.every((id) => /^[0-9a-v]{26}$/.test(id))).toBe(true)
    expect(seen[0]!.timestamp).toBe('2026-11-29T16:34:12.000Z')
    expect(seen.at(-1)!.timestamp).toBe('2026-11-29T16:34:12.007Z')
  })

  it('hands out an event whose own properties are exactly the documented ones', async () => {
    const { bus } = newBus({ agentId: 'a1', source: 'host' })
    let seen: unknown
    bus.subscribe('x', (event) => (seen = JSON.parse(JSON.stringify(event))))
    await bus.emit('x', { a: 1 }, { source: 'me' })
    expect(seen).toEqual({
      type: 'x',
      id: expect.any(String),
      timestamp: '2026-11-29T16:34:12.000Z',
      source: 'me',
      payload: { a: 1 },
      causation: { seq: 1, session_id: 's1', agent_id: 'a1', depth: 0 },
    })
  })

  it('fills in the schema version of its own events on a copy, and leaves other payloads alone', async () => {
    const { bus } = newBus()
    const seen: unknown[] = []
    bus.subscribeAll(({ payload }) => seen.push(payload))
    const reason = Object.freeze({ reason: 'r' })
    await bus.emit('session.snapshot.request', reason)
    await bus.emit('session.file.updated', { session_id: 's', path: 'p', size: 1, offset: 0, bytes_added: 1 })
    await bus.emitVetoable('before:io.input', { content: 'c', session_id: 's' })
    const own = { mine: true }
    await bus.emit('plugin.own', own)
    expect(seen).toEqual([
      { _schema_version: 1, reason: 'r' },
      { _schema_version: 2, session_id: 's', path: 'p', size: 1, offset: 0, bytes_added: 1 },
      { _schema_version: 1, content: 'c', session_id: 's' },
      { mine: true },
    ])
    expect(seen[3]).toBe(own)
    const complete = { _schema_version: 1, reason: 'r' } as const
    await bus.emit('session.snapshot.request', complete)
    expect(seen[4]).toBe(complete)
  })

  it('skips a handler whose filter says no, and counts a throwing filter as a failure of that handler', async () => {
    const { bus, logger } = newBus()
    const ran: unknown[] = []
    bus.subscribe('x', ({ payload }) => ran.push(payload), { filter: ({ payload }) => payload === 2 })
    bus.subscribe('x', () => ran.push('never'), {
      filter: () => {
        throw new Error('bad filter')
      },
    })
    await bus.emit('x', 1)
    await bus.emit('x', 2)
    expect(ran).toEqual([2])
    expect(logger.lines.filter(({ level }) => level === 'error')).toHaveLength(2)
  })
})

describe('subscriptions', () => {
  it('end at once, also for a dispatch that is under way, and may be ended twice', async () => {
    const { bus } = newBus()
    const ran: string[] = []
    bus.subscribe('x', () => {
      ran.push('first')
      offSecond()
      offWild()
    })
    const offSecond = bus.subscribe('x', () => ran.push('second'))
    const offWild = bus.subscribeAll(() => ran.push('wild'))
    await bus.emit('x', 1)
    await bus.emit('x', 2)
    offSecond()
    offWild()
    expect(ran).toEqual(['first', 'first'])
  })

  it('made while an event is dispatched begin with the next one', async () => {
    const { bus } = newBus()
    const ran: string[] = []
    bus.subscribe('x', () => {
      bus.subscribe('x', () => ran.push('late'))
    })
    await bus.emit('x', 1)
    expect(ran).toEqual([])
    await bus.emit('x', 2)
    expect(ran).toEqual(['late'])
  })

  it('refuse a handler that is no function, a priority that can not be ordered, and names that are no types', () => {
    const { bus } = newBus()
    expect(() => bus.subscribe('x', 5 as never)).toThrow(/needs a function/)
    expect(() => bus.subscribe('x', () => 1, { priority: Number.NaN })).toThrow(/finite priority/)
    for (const type of ['', '*', 7 as unknown as string])
      expect(() => bus.subscribe(type, () => 1)).toThrow(/no event type/)
  })

  it('survive that thousands of types without a handler were emitted', async () => {
    const { bus } = newBus()
    const ran: string[] = []
    bus.subscribe('kept', () => ran.push('kept'))
    bus.subscribeAll(() => ran.push('wild'))
    for (let i = 0; i < 5000; i++) void bus.emit(`made.up.${i}`, i)
    ran.length = 0
    await bus.emit('kept', 1)
    await bus.emit('made.up.1', 1)
    expect(ran).toEqual(['kept', 'wild', 'wild'])
  })
})

describe('a failing handler', () => {
  it.each([
    [
      'throws',
      () => {
        throw new Error('boom')
      },
    ],
    ['rejects', () => Promise.reject(new Error('boom'))],
    // oxlint-disable-next-line unicorn/no-thenable -- the handler under test is broken on purpose
    ['returns a thenable whose then throws', () => Object.defineProperty({}, 'then', { get: () => fail() })],
  ])('that %s is logged, becomes one core.error, and harms no other', async (_, handler) => {
    const { bus, logger } = newBus()
    const ran: unknown[] = []
    bus.subscribe('x', handler, { source: 'faulty' })
    bus.subscribe('x', () => ran.push('other'), { priority: 1 })
    bus.subscribe('core.error', ({ payload, causation }) => ran.push(payload, causation.depth))
    await bus.emit('x', 1)
    expect(ran).toEqual([
      { _schema_version: 1, source: 'faulty', error: 'boom', fatal: false, retryable: false },
      1,
      'other',
    ])
    expect(logger.lines).toEqual([
      {
        level: 'error',
        fields: expect.objectContaining({ event: 'x', handler: 'faulty', err: expect.any(Error) }),
        message: expect.any(String),
      },
    ])
  })

  it('says in core.error whether trying again may help', async () => {
    const { bus } = newBus()
    const retryable: boolean[] = []
    bus.subscribe('core.error', ({ payload }) => retryable.push(payload.retryable))
    bus.subscribe('x', () => Promise.reject(new NexusError('UNAVAILABLE', 'later')))
    bus.subscribe('x', () => Promise.reject(new NexusError('CORRUPT', 'never')))
    await bus.emit('x', 1)
    expect(retryable).toEqual([true, false])
  })

  it.each([null, undefined, 7, { odd: true }])('may throw %j', async (thrown) => {
    const { bus } = newBus()
    const errors: unknown[] = []
    bus.subscribe('x', () => {
      throw thrown
    })
    bus.subscribe('core.error', ({ payload }) => errors.push(payload.error))
    await bus.emit('x', 1)
    expect(errors).toEqual([inspect(thrown)])
  })

  it('of core.error only logs: nothing loops', async () => {
    const { bus, logger, recorder } = newBus()
    bus.subscribe('core.error', () => {
      throw new Error('error in the error handler')
    })
    bus.subscribe('x', () => {
      throw new Error('boom')
    })
    await bus.emit('x', 1)
    expect(recorder.types).toEqual(['x', 'core.error'])
    expect(logger.lines).toHaveLength(2)
  })

  it('of an event that a core.error handler emitted only logs: no loop over a detour', async () => {
    const { bus, recorder } = newBus()
    bus.subscribe('core.error', async (event) => {
      await Promise.resolve()
      await event.emit('x', 'again')
    })
    bus.subscribe('x', () => {
      throw new Error('boom')
    })
    await bus.emit('x', 1)
    await bus.drain({ timeoutMs: 1000 })
    expect(recorder.types).toEqual(['x', 'core.error', 'x'])
  })

  it('is not waited for through its core.error', async () => {
    const { bus } = newBus()
    bus.subscribe('core.error', () => never)
    bus.subscribe('x', () => {
      throw new Error('boom')
    })
    await bus.emit('x', 1)
    expect(bus.outstanding).toBe(1)
  })

  it('rejects the emit under failFast, and later handlers do not run', async () => {
    const { bus } = newBus({ failFast: true })
    const ran: string[] = []
    bus.subscribe('sync', () => {
      throw new Error('sync boom')
    })
    bus.subscribe('async', () => Promise.reject(new Error('async boom')))
    bus.subscribeAll(() => ran.push('wild'))
    await expect(bus.emit('sync', 1)).rejects.toThrow('sync boom')
    await expect(bus.emit('async', 1)).rejects.toThrow('async boom')
    expect(ran).toEqual([])
  })
})

describe('an emit that is refused', () => {
  it('is logged, because nobody may be waiting for it', async () => {
    const { bus, logger } = newBus()
    void bus.emit('', 1)
    void bus.emitVetoable('x', 1)
    expect(logger.lines.map(({ level }) => level)).toEqual(['warn', 'warn'])
    bus.close()
    void bus.emit('x', 1)
    expect(logger.lines.at(-1)).toMatchObject({ level: 'debug', fields: { event: 'x' } })
  })

  it('ends a circle of synchronous handlers before the stack does, and leaves the bus working', async () => {
    const { bus, logger, recorder } = newBus()
    bus.subscribe('a', (event) => void event.emit('b', 1))
    bus.subscribe('b', () => void bus.emit('a', 1))
    await bus.emit('a', 1)
    expect(logger.lines).toEqual([expect.objectContaining({ level: 'warn', message: 'an event was not dispatched' })])
    expect(recorder.records).toHaveLength(200)
    expect(bus.outstanding).toBe(0)
    await bus.emit('c', 1)
    expect(recorder.records.at(-1)?.event.causation.depth).toBe(0)
  })

  it('is none in a long chain of asynchronous handlers', async () => {
    const { bus } = newBus()
    let longest = 0
    bus.subscribe('a', async (event) => {
      longest = event.causation.depth
      await Promise.resolve()
      if (longest < 1000) await event.emit('a', 1)
    })
    await bus.emit('a', 1)
    expect(longest).toBe(1000)
  })
})

describe('what follows the handlers', () => {
  it('comes in order: wildcards, the recorder, the hook; and the emit waits for all', async () => {
    const { bus, recorder } = newBus()
    const ran: string[] = []
    const durable = gate()
    bus.setRecorder({
      record: (event) => recorder.record(event),
      settled: (event) =>
        event.type === 'agent.turn.end' ? durable.promise.then(() => void ran.push('durable')) : undefined,
    })
    bus.setAfterDispatch(['agent.turn.end'], async () => {
      await Promise.resolve()
      ran.push('hook')
    })
    bus.subscribe('agent.turn.end', () => ran.push('typed'))
    bus.subscribeAll(() => ran.push('wild'))
    const emitted = bus.emit('agent.turn.end', { turn_id: 't', session_id: 's' }).then(() => ran.push('resolved'))
    await settle()
    expect(ran).toEqual(['typed', 'wild'])
    expect(bus.outstanding).toBe(1)
    durable.open()
    await emitted
    expect(ran).toEqual(['typed', 'wild', 'durable', 'hook', 'resolved'])
    expect(bus.outstanding).toBe(0)
  })

  it('rejects the emit when durability was not reached, raises core.error, and still runs the hook', async () => {
    const { bus, recorder } = newBus()
    const ran: string[] = []
    bus.setRecorder({
      record: (event) => recorder.record(event),
      settled: (event) => (event.type === 'agent.turn.end' ? Promise.reject(new Error('disk full')) : undefined),
    })
    bus.setAfterDispatch(['agent.turn.end'], async () => void ran.push('hook'))
    bus.subscribe('core.error', ({ payload }) => ran.push(payload.error))
    await expect(bus.emit('agent.turn.end', { turn_id: 't', session_id: 's' })).rejects.toThrow('disk full')
    expect(ran).toEqual(['disk full', 'hook'])
  })

  it('never leaves an unhandled rejection behind when nobody awaits the emit', async () => {
    const { bus } = newBus()
    const unhandled: unknown[] = []
    const note = (error: unknown): void => void unhandled.push(error)
    process.on('unhandledRejection', note)
    bus.setRecorder({ record: () => 1, settled: () => Promise.reject(new Error('disk full')) })
    void bus.emit('agent.turn.end', { turn_id: 't', session_id: 's' })
    void bus.emitVetoable('before:x', 1)
    bus.close()
    void bus.emit('x', 1)
    await settle()
    await settle()
    process.off('unhandledRejection', note)
    expect(unhandled).toEqual([])
  })

  it('survives a hook that rejects', async () => {
    const { bus, recorder } = newBus()
    bus.setAfterDispatch(['x'], () => Promise.reject(new Error('hook')))
    await bus.emit('x', 1)
    expect(recorder.types).toEqual(['x', 'core.error'])
    bus.setAfterDispatch(['x'], undefined)
    await bus.emit('x', 1)
    expect(recorder.types).toEqual(['x', 'core.error', 'x'])
  })
})

describe('drain and close', () => {
  it('drain waits for what is under way, and for what that starts', async () => {
    const { bus, clock } = newBus()
    const first = gate()
    const second = gate()
    bus.subscribe('x', async (event) => {
      await first.promise
      void event.emit('y', 1)
    })
    bus.subscribe('y', () => second.promise)
    void bus.emit('x', 1)
    let drained: boolean | undefined
    const draining = bus.drain({ timeoutMs: 60_000 }).then((all) => (drained = all))
    first.open()
    await settle()
    expect(drained).toBeUndefined()
    second.open()
    await draining
    expect(drained).toBe(true)
    expect(clock.pendingTimers).toBe(0)
  })

  it('drain gives up on handlers that never settle, and says which', async () => {
    const { bus, clock, logger } = newBus()
    bus.subscribe('stuck', () => never)
    void bus.emit('stuck', 1)
    const draining = bus.drain({ timeoutMs: 500 })
    await clock.advance(499)
    await clock.advance(1)
    expect(await draining).toBe(false)
    expect(logger.lines.at(-1)).toMatchObject({ level: 'warn', fields: { outstanding: 1, types: ['stuck'] } })
  })

  it('a closed bus rejects what is emitted, calls nobody and records nothing', async () => {
    const { bus, recorder } = newBus()
    const ran: string[] = []
    const slow = gate()
    bus.subscribe('x', () => slow.promise)
    bus.subscribe('x', () => ran.push('after'))
    bus.subscribe('before:y', () => slow.promise)
    const underWay = Promise.all([bus.emit('x', 1), bus.emitVetoable('before:y', 1)])
    bus.close()
    await expect(bus.emit('x', 1)).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(bus.emitVetoable('before:x', 1)).rejects.toMatchObject({ code: 'CLOSED' })
    slow.open()
    await underWay
    expect(ran).toEqual([])
    expect(recorder.types).toEqual(['x'])
  })
})

describe('model', () => {
  it('calls exactly the active handlers, in the order of the model, whatever was subscribed and ended before', async () => {
    const action = fc.oneof(
      fc.record({
        do: fc.constant('subscribe' as const),
        type: fc.constantFrom('a', 'b'),
        priority: fc.integer({ min: -2, max: 2 }),
        async: fc.boolean(),
      }),
      fc.record({ do: fc.constant('wild' as const), async: fc.boolean() }),
      fc.record({ do: fc.constant('end' as const), which: fc.nat(20) }),
      fc.record({ do: fc.constant('emit' as const), type: fc.constantFrom('a', 'b', 'c') }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 40 }), async (actions) => {
        const { bus, recorder } = newBus()
        const model: { id: number; type: string | undefined; priority: number; end: () => void }[] = []
        const calls: { ran: number[]; expected: number[] }[] = []
        let nextId = 0
        for (const step of actions) {
          const ran: number[] = []
          if (step.do === 'subscribe' || step.do === 'wild') {
            const id = nextId++
            const handler = step.async ? () => Promise.resolve().then(() => log(id)) : () => log(id)
            const end =
              step.do === 'wild'
                ? bus.subscribeAll(handler)
                : bus.subscribe(step.type, handler, { priority: step.priority })
            model.push({
              id,
              type: step.do === 'wild' ? undefined : step.type,
              priority: step.do === 'wild' ? 99 : step.priority,
              end,
            })
          } else if (step.do === 'end') {
            model.splice(step.which % Math.max(model.length, 1), 1)[0]?.end()
          } else {
            current = ran
            await bus.emit(step.type, null)
            const expected = model
              .filter(({ type }) => type === undefined || type === step.type)
              .toSorted((x, y) => x.priority - y.priority || x.id - y.id)
              .map(({ id }) => id)
            calls.push({ ran, expected })
          }
        }
        expect(calls.map(({ ran }) => ran)).toEqual(calls.map(({ expected }) => expected))
        expect(recorder.records.map(({ event }) => event.causation.seq)).toEqual(
          recorder.records.map((_, at) => at + 1),
        )
      }),
      { numRuns: 200 },
    )
  })
})

let current: number[] = []
const log = (id: number): void => void current.push(id)
const fail = (): never => {
  throw new Error('boom')
}
