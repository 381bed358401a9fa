import { existsSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock, type Clock } from '@nexus/host'
import { keepingLogger } from '@nexus/host/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Engine, Plugin } from '../src/index.ts'
import { EngineLab, type HostOptions } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

const DAY_MS = 24 * 60 * 60 * 1000
/** Between two looks of a run at its lock. */
const LOCK_REFRESH_MS = 5_000

/** The system's clock, but for timers of one length. */
function clockWith(delayMs: number, setTimeout: (callback: () => void) => ReturnType<Clock['setTimeout']>): Clock {
  return {
    ...systemClock,
    now: () => systemClock.now(),
    clearTimeout: (timer) => systemClock.clearTimeout(timer),
    setTimeout: (callback, ms) => (ms === delayMs ? setTimeout(callback) : systemClock.setTimeout(callback, ms)),
  }
}

/** Boots an engine, and resolves when its first sweep is over: then the next is put off for a day. */
async function bootAndSweep(host: string, options: HostOptions): Promise<Engine> {
  let swept: () => void = () => undefined
  const sweep = new Promise<void>((resolve) => (swept = resolve))
  const clock = clockWith(DAY_MS, (callback) => {
    swept()
    return systemClock.setTimeout(callback, DAY_MS)
  })
  const engine = await lab.booted(host, { ...options, clock })
  await sweep
  return engine
}

/** Makes a session look unused since 40 days, which is more than the default retention. */
function age(dir: string): void {
  const then = new Date(Date.now() - 40 * DAY_MS)
  for (const path of readdirSync(dir, { recursive: true, encoding: 'utf8' })) utimesSync(join(dir, path), then, then)
}

/** A session of one turn that has ended and was not used since. */
async function oldSession(stored: boolean): Promise<string> {
  const engine = await lab.booted('a', { stored })
  await engine.submitInput('one')
  await engine.stop()
  const dir = lab.sessionDir('a', engine.sessionId)
  age(dir)
  return dir
}

/** The options of a host with this retention, or without a word about it. */
function keeping(retention: string | undefined, stored: boolean): HostOptions {
  const root = join(lab.dir, 'a')
  const sessions = { root: join(root, 'sessions'), ...(retention === undefined ? {} : { retention }) }
  return { stored, core: { sessions, storage: { root } } }
}

describe('a boot', () => {
  it('removes sessions past a retention that the host wrote, stored or not', async () => {
    const dirs = [await oldSession(false), await oldSession(true)]
    await bootAndSweep('a', keeping('30d', true))
    expect(dirs.filter((dir) => existsSync(dir))).toEqual([])
  })

  it('removes only what a store holds when no retention is written', async () => {
    const local = await oldSession(false)
    const stored = await oldSession(true)
    await bootAndSweep('a', keeping(undefined, true))
    expect([existsSync(local), existsSync(stored)]).toEqual([true, false])
  })

  it('removes nothing whose last snapshot failed, whatever the retention', async () => {
    const first = await lab.booted('a')
    await first.submitInput('one')
    lab.backend.faults.failWhen(({ op }) => op === 'put')
    await first.submitInput('two')
    await first.stop()
    lab.backend.faults.heal()
    const failed = lab.sessionDir('a', first.sessionId)
    age(failed)
    const whole = await oldSession(true)
    await bootAndSweep('a', keeping('30d', true))
    expect([existsSync(failed), existsSync(whole)]).toEqual([true, false])
  })

  it('warns of gates that share a priority, since no order is promised between them', async () => {
    const gate = (id: string): Plugin => ({
      id,
      name: id,
      version: '1.0.0',
      init: ({ bus }) => void bus.subscribe('before:io.input', () => undefined, { priority: 7 }),
    })
    const logger = keepingLogger()
    await lab.booted('a', { stored: false, plugins: [gate('p.one'), gate('p.two')], logger })
    const told = logger.lines.filter(({ message }) => message.includes('share priority 7'))
    expect(told).toMatchObject([{ level: 'warn' }])
  })

  it('notes the plugins that run with the session: the active ones, at a resume those of the host', async () => {
    const named = (id: string): Plugin => ({ id, name: id, version: '1.0.0', init: () => undefined })
    const config = { plugins: { active: ['p.one'] } }
    const first = await lab.booted('a', { stored: false, plugins: [named('p.one'), named('p.two')], config })
    expect(first.session.meta().plugins).toEqual(['p.one'])
    await first.stop()
    const again = { stored: false, recallSessionId: first.sessionId, useConfigSnapshot: false }
    const second = await lab.booted('a', { ...again, plugins: [named('p.two')] })
    expect(second.session.meta().plugins).toEqual(['p.two'])
  })

  it('gives a blob store whose budget can be set at each sweep', async () => {
    const engine = await lab.booted('a', { stored: false })
    const blobs = await engine.session.blobStore()
    for (let n = 0; n < 5; n++) await blobs.put(Buffer.alloc(1000, n))
    expect(await blobs.sweep()).toMatchObject({ evicted: 0 })
    expect(await blobs.sweep({ byteBudget: 2500 })).toMatchObject({ evicted: 3, freed: 3000 })
    expect(await blobs.totalBytes()).toBe(2000)
  })

  it('notes the labels of the host with the session, at a resume as well', async () => {
    const first = await lab.booted('a', { stored: false, labels: { team: 'red' } })
    expect(first.session.meta().labels).toEqual({ team: 'red' })
    await first.stop()
    const labels = { team: 'blue', ticket: '7' }
    const second = await lab.booted('a', { stored: false, recallSessionId: first.sessionId, labels })
    expect(second.session.meta().labels).toEqual(labels)
  })
})

describe('a run', () => {
  it('ticks from its boot to its stop', async () => {
    const engine = await lab.engine('a', {
      stored: false,
      core: { ...keeping('0', false).core, tick_interval: '10ms' },
    })
    const sequences: number[] = []
    engine.bus.subscribe('core.tick', ({ payload }) => void sequences.push(payload.sequence))
    await engine.boot()
    await expect.poll(() => sequences.length, { timeout: 5_000, interval: 10 }).toBeGreaterThan(2)
    await engine.stop()
    expect(sequences.slice(0, 3)).toEqual([1, 2, 3])
    const heard = sequences.length
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(sequences).toHaveLength(heard)
  })

  it('ends when its lock is lost to another process, and stores nothing any more', async () => {
    const clock = clockWith(LOCK_REFRESH_MS, (callback) => systemClock.setTimeout(callback, 10))
    const engine = await lab.booted('a', { clock })
    await engine.submitInput('one')
    const lock = join(lab.sessionDir('a', engine.sessionId), 'session.lock')
    rmSync(lock)
    writeFileSync(lock, '{}')
    const puts = lab.backend.faults.calls.filter(({ op }) => op === 'put').length
    await expect.poll(() => engine.status().phase, { timeout: 5_000, interval: 10 }).toBe('lost')
    expect(await engine.submitInput('two')).toMatchObject({ accepted: false })
    await engine.stop()
    expect(lab.backend.faults.calls.filter(({ op }) => op === 'put')).toHaveLength(puts)
  })
})
