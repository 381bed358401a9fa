import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ManualClock } from '@nexus/host/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Engine, Plugin } from '../src/index.ts'
import { EngineLab } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

/** Makes the lock of a session that of the process that started the tests, and lets the session look at it. */
async function takeLock(dir: string, clock: ManualClock): Promise<void> {
  const path = join(dir, 'session.lock')
  const stat = readFileSync(`/proc/${process.ppid}/stat`, 'utf8')
  const started = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
  const lock = { ...(JSON.parse(readFileSync(path, 'utf8')) as object), pid: process.ppid, pid_start: started }
  writeFileSync(`${path}.new`, `${JSON.stringify(lock)}\n`)
  renameSync(`${path}.new`, path)
  await clock.advance(5_000)
}

interface Turns {
  plugin: Plugin
  handled: number
  /** What a write in the middle of the turn came to. */
  refused: unknown
  goOn: () => void
}

/** An agent whose turn waits in the middle, then emits and writes. */
function waitingAgent(): Turns {
  const turns: Turns = { plugin: undefined as never, handled: 0, refused: undefined, goOn: () => undefined }
  const waiting = new Promise<void>((resolve) => (turns.goOn = resolve))
  turns.plugin = {
    id: 'test.waiting',
    name: 'Waiting',
    version: '1.0.0',
    init(context) {
      const { bus, session } = context
      const database = context.storage('session')
      database.put('k', 'before')
      bus.subscribe('io.input', async (event) => {
        turns.handled += 1
        await waiting
        await event.emit('tool.invoke', { id: '1', name: 'shell', arguments: {} }).catch(() => undefined)
        try {
          database.put('k', 'after')
        } catch (error) {
          turns.refused = error
        }
        await event.emit('agent.turn.end', { turn_id: '1', session_id: session.id })
      })
    },
  }
  return turns
}

describe.each([true, false])('a run whose lock another process took (with a store: %s)', (stored) => {
  it('writes nothing from then on, runs no handler, takes no input, and says why', async () => {
    const clock = new ManualClock()
    const turns = waitingAgent()
    const engine = await lab.booted('a', { plugins: [turns.plugin], clock, stored })
    const { dir } = engine.session
    const turn = engine.submitInput('x')
    await takeLock(dir, clock)
    expect(engine.status()).toMatchObject({ phase: 'lost', lost: expect.stringContaining('another process') as string })
    const journal = join(dir, 'journal/events.jsonl')
    const before = statSync(journal).size
    const calls = lab.backend.faults.calls.length
    turns.goOn()
    await turn
    expect(turns.refused).toMatchObject({ code: 'LOCKED' })
    expect(engine.storage.open('session', 'test.waiting').get('k')?.toString()).toBe('before')
    await expect(engine.session.writeFile('files/x', 'x')).rejects.toMatchObject({ code: 'CLOSED' })
    expect(() => engine.storage.open('session', 'another')).toThrow(/another process/)
    expect(await engine.submitInput('again')).toEqual({ accepted: false, reason: engine.status().lost })
    await expect(engine.bus.emit('io.input', { content: 'x', session_id: engine.sessionId })).rejects.toMatchObject({
      code: 'CLOSED',
    })
    expect(turns.handled).toBe(1)
    await engine.stop()
    expect(statSync(journal).size).toBe(before)
    expect(lab.backend.faults.calls.slice(calls).filter(({ op }) => op === 'put' || op === 'delete')).toEqual([])
    expect(JSON.parse(readFileSync(join(dir, 'session.lock'), 'utf8'))).toMatchObject({ pid: process.ppid })
  })

  it('settles its run() with the reason', async () => {
    const clock = new ManualClock()
    const engine = await lab.engine('a', { clock, stored })
    const run = engine.run().catch((error: unknown) => error)
    await expect.poll(() => engine.status().phase).toBe('running')
    await takeLock(engine.session.dir, clock)
    expect(await run).toMatchObject({ code: 'LOCKED' })
    expect(engine.status().phase).toBe('stopped')
  })
})

describe('run()', () => {
  it.each(['stop', 'abandon'] as const)('settles when %s() is called, and hears no signal any more', async (end) => {
    const listeners = process.listenerCount('SIGTERM')
    const engine = await lab.engine('a')
    const run = engine.run()
    await expect.poll(() => engine.status().phase).toBe('running')
    expect(process.listenerCount('SIGTERM')).toBe(listeners + 1)
    await engine[end]()
    await run
    expect(process.listenerCount('SIGTERM')).toBe(listeners)
  })

  it('rejects as its boot does, and hears no signal any more', async () => {
    const listeners = process.listenerCount('SIGINT')
    const broken: Plugin = {
      id: 'test.broken',
      name: 'Broken',
      version: '1.0.0',
      init: () => Promise.reject(new Error('no way')),
    }
    const engine = await lab.engine('a', { plugins: [broken] })
    await expect(engine.run()).rejects.toThrow('no way')
    expect(process.listenerCount('SIGINT')).toBe(listeners)
  })

  it('shares its handlers with every other run of the process', async () => {
    const listeners = process.listenerCount('SIGTERM')
    const engines: Engine[] = []
    for (let n = 0; n < 12; n++) engines.push(await lab.engine(`host-${n}`, { stored: false }))
    const runs = engines.map((engine) => engine.run())
    await expect.poll(() => engines.every((engine) => engine.status().phase === 'running')).toBe(true)
    expect(process.listenerCount('SIGTERM')).toBe(listeners + 1)
    process.emit('SIGTERM')
    await Promise.all(runs)
    expect(process.listenerCount('SIGTERM')).toBe(listeners)
    const next = await lab.engine('later', { stored: false })
    const second = next.run()
    await expect.poll(() => next.status().phase).toBe('running')
    process.emit('SIGTERM')
    await second
    expect(next.status().phase).toBe('stopped')
  })
})

it('abandon() frees its own lock, leaves the marker, and lets the session be opened again in the same process', async () => {
  const first = await lab.booted('a')
  await first.submitInput('one')
  await first.abandon()
  expect([...lab.backend.objects.keys()]).toContain(`sessions/${first.sessionId}.owner/owner.json`)
  await expect(first.bus.emit('io.input', { content: 'x', session_id: first.sessionId })).rejects.toMatchObject({
    code: 'CLOSED',
  })
  const again = await lab.booted('a', { recallSessionId: first.sessionId })
  expect(again.status().resumed).toBe(true)
})

it('waits for a live holder of the session when it is told to, and says how long it was held when not', async () => {
  const first = await lab.booted('a', { stored: false })
  const at = { stored: false, recallSessionId: first.sessionId }
  const refused = await lab.engine('a', at)
  await expect(refused.boot()).rejects.toMatchObject({
    code: 'LOCKED',
    retryable: true,
    heldForMs: expect.any(Number) as number,
  })
  const waiting = await lab.engine('a', { ...at, waitForLock: 10_000 })
  const boot = waiting.boot()
  await first.stop()
  await boot
  expect(waiting.status().phase).toBe('running')
})
