import { fork } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { verify } from '@nexus/journal'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { NexusEvent } from '../../src/bus/event.ts'
import { gate, never } from '@nexus/host/testing'
import { openJournaledBus, readAll, type JournaledBus } from './journaled-bus.ts'

const TURN = { turn_id: 't1', session_id: 's1' }
const INPUT = { content: 'hello', session_id: 's1' }

let open: JournaledBus
beforeEach(async () => {
  open = await openJournaledBus()
})
afterEach(() => open.close())

describe('a turn that ends inside a running handler', () => {
  it('is durable with everything before it when its emit resolves, and the snapshot it triggers has it', async () => {
    const { bus, journal, dir, durableTypes } = open
    const snapshots: string[] = []
    bus.setAfterDispatch(['agent.turn.end'], async () => {
      const dest = join(dir, 'copy')
      mkdirSync(dest)
      const { active } = await journal.snapshot(dest)
      snapshots.push(readFileSync(active.path, 'utf8'))
    })
    const seen = gate<string[]>()
    bus.subscribe('io.input', async (event) => {
      void event.emit('plain', 1)
      await event.emit('agent.turn.start', TURN)
      await event.emit('agent.turn.end', TURN)
      seen.open(durableTypes())
      await never
    })
    void bus.emit('io.input', INPUT)
    expect(await seen.promise).toEqual(['io.input', 'plain', 'agent.turn.start', 'agent.turn.end'])
    expect(snapshots).toEqual([expect.stringContaining('"type":"agent.turn.end"')])
  })

  it('is so inside a before:* handler that never settles', async () => {
    const { bus, durableTypes, read } = open
    const seen = gate<string[]>()
    bus.subscribe('before:io.input', async (event) => {
      await event.emit('agent.turn.end', TURN)
      seen.open(durableTypes())
      await never
    })
    void bus.emitVetoable('before:io.input', INPUT)
    expect(await seen.promise).toEqual(['agent.turn.end'])
    const [end] = await read()
    expect(end).toMatchObject({ seq: 1, depth: 1, parent_id: expect.any(String) })
    expect(end).not.toHaveProperty('parent_seq')
  })
})

describe('ten thousand concurrent emits of mixed nesting', () => {
  it('leave a file without gaps, ascending, in which every parent stands before its children', async () => {
    const { bus, dir, read, journal } = open
    const left = { emits: 16_000 }
    const grow = (event: NexusEvent): unknown => {
      const depth = event.causation.depth
      if (depth >= 4 || left.emits <= 0) return undefined
      left.emits -= 3
      if (left.emits % 2 === 0) {
        void bus.emit('io.input', INPUT)
        void event.emit('before:a', depth)
        return event.emit('b', depth)
      }
      return (async () => {
        await Promise.resolve()
        await Promise.all([
          event.emit('a', depth),
          event.emitVetoable('before:b', depth),
          event.emit('core.tick', { sequence: 1, time: 't' }),
        ])
      })()
    }
    for (const type of ['a', 'b', 'before:a', 'before:b', 'core.tick']) bus.subscribe(type, grow)
    const roots: Promise<unknown>[] = []
    while (left.emits > 0) {
      left.emits -= 1
      roots.push(bus.emit(left.emits % 3 === 0 ? 'a' : 'b', left.emits))
      if (roots.length % 100 === 0) roots.push(bus.emit('agent.turn.end', TURN))
    }
    await Promise.all(roots)
    expect(await bus.drain({ timeoutMs: 30_000 })).toBe(true)
    await journal.barrier()

    const events = await read()
    expect(events.length).toBeGreaterThan(10_000)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, at) => at + 1))
    expect(await verify(dir)).toMatchObject({ ok: true, duplicates: 0 })
    expect(new Set(events.map(({ event_id }) => event_id)).size).toBe(events.length)
    expect(events.filter(({ type }) => type === 'core.tick')).toEqual([])
    const byId = new Map(events.map((event) => [event.event_id, event]))
    const wrong = events.filter(({ seq, parent_seq, parent_id }) => {
      const parent = parent_id === undefined ? undefined : byId.get(parent_id)
      if (parent === undefined || parent.type.startsWith('before:')) return parent_seq !== undefined
      return parent_seq !== parent.seq || parent.seq >= seq
    })
    expect(wrong).toEqual([])
  })
})

describe('kill -9 inside a handler', () => {
  let dir: string
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'nexus-kill-'))
  })
  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  it.each([
    'io.input',
    'agent.turn.start',
    'agent.turn.end',
    'llm.request',
    'tool.result',
    'hitl.requested',
    'shell.execute',
  ])('of %s leaves that event on disk, and all before it', async (type) => {
    const script = fileURLToPath(new URL('kill-in-handler.child.ts', import.meta.url))
    const child = fork(script, [dir, type], { execArgv: process.execArgv, stdio: 'inherit' })
    const signal = await new Promise((resolve) => {
      child.once('exit', (_, by) => resolve(by))
    })
    expect(signal).toBe('SIGKILL')
    const events = await readAll(dir)
    expect(events.map((event) => event.type)).toEqual(['plain', 'plain', 'plain', 'plain', 'plain', type])
    expect(events.at(-1)).toMatchObject({ seq: 6, payload: { text: 'x'.repeat(1000) } })
  })
})

describe('a handler that never settles', () => {
  it.each(['io.input', 'before:io.input', 'tool.invoke', 'plain'])(
    'of %s stops no later event from reaching the disk, and no barrier waits for it',
    async (type) => {
      const { bus, journal, durableTypes } = open
      bus.subscribe(type, () => never)
      bus.subscribeAll(() => undefined)
      void bus.emit(type, INPUT)
      await bus.emit('other', 1)
      await bus.emit('agent.turn.end', TURN)
      await journal.barrier()
      const recordedFirst = type.startsWith('before:') ? [] : [type]
      expect(durableTypes()).toEqual([...recordedFirst, 'other', 'agent.turn.end'])
    },
  )
})

describe('every-event', () => {
  it('has each event on the disk when its emit resolves', async () => {
    const every = await openJournaledBus({ fsync: 'every-event' })
    try {
      await Promise.all(
        Array.from({ length: 50 }, async (_, at) => {
          await every.bus.emit(`type.${at}`, at)
          expect(every.durableTypes()).toContain(`type.${at}`)
        }),
      )
      await every.bus.emit('agent.turn.end', TURN)
      expect(every.durableTypes().at(-1)).toBe('agent.turn.end')
    } finally {
      await every.close()
    }
  })
})

describe('payloads', () => {
  it('are recorded as they were at dispatch, whatever handlers do to them', async () => {
    const { bus, journal, read } = open
    bus.subscribe('x', ({ payload }) => {
      const list = (payload as { list: number[] }).list
      list.push(2)
    })
    await bus.emit('x', { list: [1] })
    await journal.barrier()
    expect((await read())[0]?.payload).toEqual({ list: [1] })
  })

  it('with half an emoji become well-formed text, and the session stays readable', async () => {
    const { bus, journal, read } = open
    await bus.emit('tool.result', { id: 'i', name: 'n', output: 'cut \u{1F600}'.slice(0, -1) })
    await bus.emit('tool.result', { id: 'i', name: 'n', output: 'bare \ud83d.' })
    await journal.barrier()
    const outputs = (await read()).map(({ payload }) => (payload as { output: string }).output)
    expect(outputs.map((output) => /\p{Surrogate}/u.test(output))).toEqual([false, false])
  })

  it('that can not be serialised keep their place', async () => {
    const { bus, journal, read } = open
    const cycle: Record<string, unknown> = {}
    cycle.self = cycle
    const after: string[] = []
    bus.subscribeAll(({ type }) => after.push(type))
    await bus.emit('x', cycle)
    await bus.emit('y', {
      toJSON: () => {
        throw new Error('no')
      },
    })
    await bus.emit('z', 1)
    await journal.barrier()
    expect(after).toEqual(['x', 'y', 'z'])
    const events = await read()
    expect(events.map(({ seq, type }) => [seq, type])).toEqual([
      [1, 'x'],
      [2, 'y'],
      [3, 'z'],
    ])
    expect(events[0]?.payload).toHaveProperty('__journal_error')
  })
})
