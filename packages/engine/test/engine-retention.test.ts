import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { engineTempName } from '@nexus/host'
import { keepingLogger } from '@nexus/host/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ConfigInput, Engine } from '../src/index.ts'
import { EngineLab, history, type HostOptions } from './engine-fixture.ts'

const DAY_MS = 24 * 60 * 60 * 1000

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

type Sessions = NonNullable<NonNullable<ConfigInput['core']>['sessions']>

/** The options of a host with these settings; the ones that aren't given have their defaults. */
function on(host: string, sessions: Sessions, more: HostOptions = {}): HostOptions {
  return {
    ...more,
    core: { sessions: { root: lab.sessionsRoot(host), ...sessions }, storage: { root: join(lab.dir, host) } },
  }
}

/** Every file of a session was last written to so long ago. */
function age(dir: string, days: number): void {
  const then = new Date(Date.now() - days * DAY_MS)
  for (const entry of readdirSync(dir, { withFileTypes: true, recursive: true })) {
    utimesSync(join(entry.parentPath, entry.name), then, then)
  }
}

/** A session of one turn that was last used 40 days ago. */
async function old(end: 'stop' | 'abandon', options: HostOptions = {}): Promise<Engine> {
  const engine = await lab.booted('a', options)
  await engine.submitInput('one')
  await engine[end]()
  await engine.stop()
  age(lab.sessionDir('a', engine.sessionId), 40)
  return engine
}

/** One that ended well, with a file that no store can hold. */
async function oldWithOddName(): Promise<Engine> {
  const engine = await lab.booted('a')
  writeFileSync(join(engine.session.filesDir, 'back\\slash'), 'x')
  await engine.submitInput('one')
  await engine.stop()
  age(lab.sessionDir('a', engine.sessionId), 40)
  return engine
}

interface Swept {
  left: string[]
  /** Why sessions were kept, by id. */
  kept: Record<string, unknown>
}

async function sweep(sessions: Sessions, more: HostOptions = {}): Promise<Swept> {
  const logger = keepingLogger()
  const sweeper = await lab.booted('a', on('a', sessions, { logger, ...more }))
  await expect.poll(() => logger.lines.some(({ message }) => message === SWEPT)).toBe(true)
  await sweeper.stop()
  const kept = logger.lines.filter(({ message }) => message.startsWith('kept a session'))
  return {
    left: readdirSync(lab.sessionsRoot('a')).filter((name) => name !== sweeper.sessionId && !name.startsWith('.')),
    kept: Object.fromEntries(kept.map(({ fields }) => [fields['session_id'], fields['why']])),
  }
}

const SWEPT = 'looked for what is past its retention'

describe('a retention that was written down', () => {
  it('removes a session that exists nowhere else, with the record of it, and one that a killed run left', async () => {
    const gone = [await old('stop', { stored: false }), await old('stop'), await old('abandon'), await oldWithOddName()]
    const young = await lab.booted('a')
    await young.stop()
    const records = (): string[] =>
      readdirSync(join(lab.sessionsRoot('a'), '.machine')).filter((name) => name.endsWith('l'))
    expect(records()).toHaveLength(4)
    const { left, kept } = await sweep({ retention: '30d' })
    expect(left).toEqual([young.sessionId])
    expect(kept).toEqual({})
    expect(records()).not.toContain(`${gone[1]?.sessionId}.jsonl`)
    expect(records()).toContain(`${young.sessionId}.jsonl`)
  })

  it('keeps one whose last turn no store got, and says so', async () => {
    const engine = await lab.booted('a')
    await engine.submitInput('one')
    lab.backend.faults.failWhen(({ op }) => op === 'put', new Error('503'))
    await engine.submitInput('two')
    await engine.abandon()
    await engine.stop()
    lab.backend.faults.heal()
    age(lab.sessionDir('a', engine.sessionId), 40)
    const { left, kept } = await sweep({ retention: '30d' })
    expect(left).toEqual([engine.sessionId])
    expect(kept).toEqual({ [engine.sessionId]: expect.stringContaining('last snapshot failed') })
  })
})

describe('a retention that was not written down', () => {
  it('removes only sessions whose end is stored', async () => {
    await old('stop')
    const [killed, local] = [await old('abandon'), await old('stop', { stored: false })]
    const { left, kept } = await sweep({})
    expect(left.toSorted()).toEqual([killed.sessionId, local.sessionId].toSorted())
    expect(kept).toEqual({})
  })

  it('removes nothing where no store can be asked', async () => {
    const engine = await old('stop')
    expect((await sweep({}, { stored: false })).left).toEqual([engine.sessionId])
  })
})

describe('temporary files', () => {
  it('of killed runs go, those of a live one stay', async () => {
    const engine = await lab.booted('a')
    await engine.stop()
    const root = lab.sessionsRoot('a')
    const dead = spawnSync(process.execPath, ['--conditions', '@nexus/source', '-e', '']).pid
    const mine = engineTempName()
    const killed = mine
      .replace(`-${process.pid.toString(36)}-`, `-${dead.toString(36)}-`)
      .replace(/.{13}$/, '0123456789ab0')
    for (const dir of [join(root, '.machine'), join(root, engine.sessionId, 'files')]) {
      for (const name of [mine, killed]) writeFileSync(join(dir, name), 'x')
    }
    const again = await lab.booted('a', { recallSessionId: engine.sessionId })
    const temps = (dir: string): string[] =>
      readdirSync(join(root, dir)).filter((name) => name.startsWith('.nexus-tmp-'))
    await expect.poll(() => [...temps('.machine'), ...temps(`${engine.sessionId}/files`)]).toEqual([mine, mine])
    await again.stop()
  })
})

describe('old journals', () => {
  const journal = { rotate_size_mb: 0.001 as never, retain_days: 7 }

  function segments(engine: Engine): string[] {
    return readdirSync(join(lab.sessionDir('a', engine.sessionId), 'journal')).filter((name) => name.endsWith('.zst'))
  }

  async function manyTurns(options: HostOptions): Promise<Engine> {
    const engine = await lab.booted('a', { ...options, config: { journal } })
    for (let turn = 0; turn < 4; turn += 1) await engine.submitInput('x'.repeat(2000))
    await engine.stop()
    age(lab.sessionDir('a', engine.sessionId), 20)
    return engine
  }

  it('go where a commit holds them, and the next boot finds the tree current', async () => {
    const stored = await manyTurns({})
    const local = await manyTurns({ stored: false })
    const before = [segments(stored).length, segments(local).length]
    expect(Math.min(...before)).toBeGreaterThan(1)
    await sweep({ retention: '90d' }, { config: { journal } })
    expect([segments(stored).length, segments(local).length]).toEqual([1, before[1]])
    const calls = lab.backend.faults.calls.length
    const again = await lab.booted('a', { recallSessionId: stored.sessionId })
    expect((await history(again)).split('\n')).toHaveLength(5)
    expect(lab.backend.faults.calls.slice(calls).filter(({ key }) => key.includes('conversation'))).toEqual([])
    expect(readdirSync(lab.sessionsRoot('a')).filter((name) => name.startsWith('.stale'))).toEqual([])
    await again.stop()
  })
})

describe('trees that were set aside', () => {
  function setAside(): string[] {
    return readdirSync(lab.sessionsRoot('a')).filter((name) => name.startsWith('.stale-'))
  }

  /** Host b goes on with the session, and host a comes back to it. */
  async function overtaken(id: string, { unstored = false } = {}): Promise<void> {
    const onA = await lab.booted('a', { recallSessionId: id })
    await onA.submitInput('on a')
    if (unstored) lab.backend.faults.failWhen(({ op }) => op === 'put', new Error('503'))
    if (unstored) await onA.submitInput('never stored')
    await onA.abandon()
    await onA.stop()
    lab.backend.faults.heal()
    const onB = await lab.booted('b', { recallSessionId: id })
    await onB.submitInput('on b')
    await onB.stop()
    const back = await lab.booted('a', { recallSessionId: id })
    await back.stop()
  }

  it('go when they are not the newest, old enough, and hold nothing that the store lacks', async () => {
    await overtaken('s1', { unstored: true })
    const [forked] = setAside()
    await overtaken('s1')
    await overtaken('s1')
    expect(setAside()).toHaveLength(3)
    await sweep({ retention: 0, keep_stale: { count: 1, days: 7 } })
    expect(setAside()).toHaveLength(3)
    await sweep({ retention: 0, keep_stale: { count: 1, days: 0 } })
    expect(setAside()).toHaveLength(2)
    await sweep({ retention: 0, keep_stale: { count: 0, days: 0 } })
    expect(setAside()).toEqual([forked])
    expect(existsSync(join(lab.sessionsRoot('a'), forked as string, 'context/conversation.jsonl'))).toBe(true)
  })
})
