import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Backend } from '@nexus/objectstore'
import { keepingLogger } from '@nexus/host/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Engine, Plugin } from '../src/index.ts'
import { EngineLab } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

const LIMIT_MS = 1_000
/** What the timers of a busy machine may add. */
const SLACK_MS = 400
const config = { engine: { shutdown: { drain_timeout: `${LIMIT_MS}ms` } } }

/** A plugin that hangs where it is told to. */
function hanging(where: 'shutdown' | 'core.shutdown' | 'a turn' | 'nowhere'): Plugin {
  const forever = (): Promise<void> => new Promise(() => undefined)
  return {
    id: 'test.hanging',
    name: 'Hanging',
    version: '1.0.0',
    init: ({ bus }) => {
      if (where === 'core.shutdown') bus.subscribe('core.shutdown', forever)
      if (where === 'a turn') bus.subscribe('io.input', forever)
    },
    shutdown: () => (where === 'shutdown' ? forever() : undefined),
  }
}

/** A store whose puts take so long each. */
function slow(backend: Backend, delayMs: number): Backend {
  return new Proxy(backend, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      const call = (value as (...args: unknown[]) => unknown).bind(target)
      if (name !== 'put') return call
      return async (...args: unknown[]) => {
        await new Promise((resolve) => setTimeout(resolve, delayMs))
        return call(...args)
      }
    },
  })
}

async function timed(work: Promise<void>): Promise<number> {
  const startedMs = performance.now()
  await work.catch(() => undefined)
  return performance.now() - startedMs
}

async function turn(engine: Engine, id: string): Promise<void> {
  await engine.bus.emit('agent.turn.start', { turn_id: id, session_id: engine.sessionId })
  await engine.bus.emit('agent.turn.end', { turn_id: id, session_id: engine.sessionId })
}

describe('stop() with a store that never answers', () => {
  it.each([
    ['an idle session', false, 'nowhere', false],
    ['a turn being stored', false, 'nowhere', true],
    ['a turn being stored by a driver that ignores signals', true, 'nowhere', true],
    ['a plugin that hangs besides', true, 'shutdown', true],
    ['a handler that hangs besides', true, 'a turn', false],
  ] as const)('ends within its drain_timeout: %s', async (_what, ignoreSignal, where, isStoring) => {
    const engine = await lab.booted('a', { plugins: [hanging(where)], config })
    await turn(engine, 't1')
    lab.backend.faults.hang(() => true, { ignoreSignal })
    if (where === 'a turn') void engine.submitInput('x')
    if (isStoring) void turn(engine, 't2')
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(await timed(engine.stop())).toBeLessThan(LIMIT_MS + SLACK_MS)
    expect(engine.status().phase).toBe('stopped')
    lab.backend.faults.heal()
  })
})

describe('the share of the last snapshot', () => {
  it.each(['shutdown', 'core.shutdown', 'a turn'] as const)(
    'is not eaten by a plugin that hangs in %s',
    async (where) => {
      const backend = slow(lab.backend, 20)
      const engine = await lab.booted('a', { plugins: [hanging(where)], config, backend })
      mkdirSync(join(engine.session.dir, 'files'), { recursive: true })
      for (let n = 0; n < 60; n++) writeFileSync(join(engine.session.dir, `files/${n}`), `${n}`)
      if (where === 'a turn') void engine.submitInput('x')
      expect(await timed(engine.stop())).toBeLessThan(LIMIT_MS + SLACK_MS)
      expect(engine.status().durability?.lastSnapshot).toMatchObject({ trigger: 'shutdown', ok: true })
      expect(lab.backend.objects.get(`sessions/${engine.sessionId}/files/59`)?.bytes.toString()).toBe('59')
      const meta = lab.backend.objects.get(`sessions/${engine.sessionId}/metadata/session.json`)
      expect(meta?.bytes.toString()).toContain('"ended"')
    },
  )
})

describe('stop() that lost something', () => {
  it.each([
    ['strict', 'CLOSED'],
    ['degrade', undefined],
  ] as const)('rejects under strict, and warns in any case (%s)', async (policy, code) => {
    const logger = keepingLogger()
    const engine = await lab.booted('a', { core: { object_store: { failure_policy: policy } }, logger, plugins: [] })
    await engine.session.idle()
    // The metadata can't be written any more.
    engine.session.close()
    const stopped = await engine.stop().catch((error: unknown) => error)
    expect((stopped as { code?: string } | undefined)?.code).toBe(code)
    expect(logger.lines.map(({ message }) => message)).toContain('a step of the shutdown failed; going on')
  })
})
