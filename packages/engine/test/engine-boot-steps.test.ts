import { appendFileSync, existsSync, readdirSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { JournalReader } from '@nexus/journal'
import { type Clock, systemClock, type TimerHandle } from '@nexus/host'
import { keepingLogger } from '@nexus/host/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Plugin } from '../src/index.ts'
import { runSteps } from '../src/lifecycle/boot/step.ts'
import { BOOT_STEPS } from '../src/lifecycle/boot/boot.ts'
import { EngineLab, history, scribe } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

const idle = (id: string, more: Partial<Plugin> = {}): Plugin => ({
  id,
  name: id,
  version: '1.0.0',
  init: () => undefined,
  ...more,
})

/** The real clock, knowing which of its timers are pending. */
class CountingClock implements Clock {
  readonly pending: Set<TimerHandle> = new Set()
  now = (): number => systemClock.now()

  setTimeout = (run: () => void, delayMs: number): TimerHandle => {
    const timer = systemClock.setTimeout(() => {
      this.pending.delete(timer)
      run()
    }, delayMs)
    this.pending.add(timer)
    return timer
  }

  clearTimeout = (timer: TimerHandle): void => {
    this.pending.delete(timer)
    systemClock.clearTimeout(timer)
  }
}

function openFilesBelow(dir: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(join('/proc/self/fd', fd))
      return path.startsWith(dir) ? [path] : []
    } catch {
      return []
    }
  })
}

describe('steps of a boot', () => {
  it('run in order, and are undone newest first when one fails', async () => {
    const seen: string[] = []
    const logger = keepingLogger()
    const step = (name: string, undo?: () => void) => ({
      name,
      run: (context: string[]) => void context.push(name),
      undo: (context: string[]) => {
        context.push(`-${name}`)
        undo?.()
      },
    })
    const steps = [
      step('a'),
      step('b', () => {
        throw new Error('stuck')
      }),
      { name: 'c', run: () => Promise.reject(new Error('no')), undo: () => seen.push('-c') },
      step('d'),
    ]
    const failpoint = (name: string): void => void seen.push(name)
    await expect(runSteps(steps as never, seen, { logger, failpoint })).rejects.toThrow('no')
    expect(seen).toEqual(['a', 'boot:a', 'b', 'boot:b', '-b', '-a'])
    expect(logger.lines.map(({ fields }) => fields['step'])).toEqual(['b'])
  })
})

describe('a boot that fails', () => {
  it.each(BOOT_STEPS.map(({ name }) => name))('behind the step %s gives everything back', async (step) => {
    const first = await lab.booted('a')
    await first.submitInput('one')
    await first.stop()
    const clock = new CountingClock()
    const closing = vi.spyOn(lab.backend, 'close')
    const shutDown: string[] = []
    const plugin: Plugin = { ...scribe, shutdown: () => void shutDown.push(step) }
    const failpoint = (name: string): void => {
      if (name === `boot:${step}`) throw new Error('injected')
    }
    const options = { clock, plugins: [plugin], failpoint }
    const resuming = await lab.engine('a', { ...options, recallSessionId: first.sessionId })
    await expect(resuming.boot()).rejects.toThrow('injected')
    const beginning = await lab.engine('a', options)
    await expect(beginning.boot()).rejects.toThrow('injected')

    expect([resuming.status().phase, beginning.status().phase]).toEqual(['failed', 'failed'])
    expect(closing).toHaveBeenCalledTimes(2)
    expect([...clock.pending]).toEqual([])
    expect(openFilesBelow(lab.dir)).toEqual([])
    expect(readdirSync(lab.sessionsRoot('a')).filter((name) => name !== '.machine')).toEqual([first.sessionId])
    expect(existsSync(join(lab.sessionDir('a', first.sessionId), 'session.lock'))).toBe(false)
    const initialised = BOOT_STEPS.findIndex(({ name }) => name === step)
    const init = BOOT_STEPS.findIndex(({ name }) => name === 'plugin-init')
    expect(shutDown).toHaveLength(initialised < init ? 0 : 2)
    const again = await lab.booted('a', { recallSessionId: first.sessionId })
    expect(await history(again)).toBe('one\n')
  })
})

describe('a booted session', () => {
  it('tells plugins whose it is, and keeps agent-scope databases apart', async () => {
    const seen: unknown[] = []
    const plugin = idle('test.one', {
      init(context) {
        seen.push(context.engineInfo.agentId)
        context.storage('agent').put('a', 'b')
      },
    })
    const engine = await lab.booted('a', {
      stored: false,
      plugins: [plugin],
      core: coreOf('a', { agent_id: 'butler' }),
    })
    expect(seen).toEqual(['butler'])
    expect(existsSync(join(lab.dir, 'a/agents/butler/plugins/test.one/store.db'))).toBe(true)
    await engine.stop()
  })
})

describe('a conversation that was damaged', () => {
  async function toldOf(bytes: string): Promise<unknown[]> {
    const first = await lab.booted('a', { stored: false })
    await first.stop()
    appendFileSync(join(lab.sessionDir('a', first.sessionId), 'context/conversation.jsonl'), bytes)
    const engine = await lab.engine('a', { stored: false, recallSessionId: first.sessionId })
    const told: unknown[] = []
    engine.bus.subscribe('core.error', ({ payload }) => void told.push(payload.error))
    await engine.boot()
    await engine.stop()
    return told
  }

  it('is told with file and position: bytes of a lost block, a cut line, a line without its end', async () => {
    expect(await toldOf('{"a":1}\n{"b":\0\0\0\n')).toEqual([
      expect.stringContaining('conversation.jsonl is damaged at byte 8: line 2 holds NUL bytes'),
    ])
    expect(await toldOf('{"a":1}\n{"b":\n{"c":3')).toEqual([
      expect.stringMatching(/byte 8: line 2 is not a JSON object \(and 2 more\)/),
    ])
  })

  it('is not one whose lines are whole, or a format of its plugin', async () => {
    expect(await toldOf('{"a":1}\n\n{"b":2}\n')).toEqual([])
    expect(await toldOf('hello\nthere\n')).toEqual([])
  })
})

describe('a journal that was damaged', () => {
  it('is told as one event, with file and position, behind core.boot', async () => {
    const first = await lab.booted('a', { stored: false })
    await first.submitInput('one')
    await first.stop()
    const active = join(lab.sessionDir('a', first.sessionId), 'journal/events.jsonl')
    const { size } = statSync(active)
    appendFileSync(active, '{"seq":99,"ty')
    const engine = await lab.engine('a', { stored: false, recallSessionId: first.sessionId })
    const seen: [string, unknown][] = []
    engine.bus.subscribe('core.boot', () => void seen.push(['core.boot', '']))
    engine.bus.subscribe('core.error', ({ payload }) => void seen.push([payload.source, payload.error]))
    await engine.boot()
    expect(seen).toEqual([
      ['core.boot', ''],
      ['core.session', expect.stringContaining(`events.jsonl is damaged at byte ${size}`)],
    ])
    await engine.stop()
    const reader = await JournalReader.open(join(active, '..'))
    for await (const _ of reader);
    expect(reader.damage).toEqual([])
  })
})

function coreOf(host: string, more: object): object {
  return { sessions: { root: lab.sessionsRoot(host), retention: 0 }, storage: { root: join(lab.dir, host) }, ...more }
}
