import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { serializeHolder, type LockHolder } from '../src/lock/lock-record.ts'
import { systemProcesses } from '../src/process/process-identity.ts'
import { readLockState } from '../src/lock/session-lock.ts'
import type { RaceAnswer, RaceCommand } from './lock-racer.ts'

class Racer {
  readonly #child: ChildProcess
  readonly #exited: Promise<undefined>

  constructor(child: ChildProcess) {
    this.#child = child
    this.#exited = once(child, 'exit').then(() => undefined)
  }

  /** @param wrapper a command that runs the racer */
  static async start(wrapper: string[] = []): Promise<Racer> {
    const script = fileURLToPath(new URL('./lock-racer.ts', import.meta.url))
    const [command, ...args]: string[] = [...wrapper, process.execPath, ...process.execArgv, script]
    const child = spawn(String(command), args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    const racer = new Racer(child)
    await racer.#answer()
    return racer
  }

  get pid(): number {
    return this.#child.pid as number
  }

  /** Undefined when the racer died before it answered. */
  async send(command: RaceCommand | 'release'): Promise<RaceAnswer | undefined> {
    const answer = this.#answer()
    this.#child.send(command)
    return await answer
  }

  async end(): Promise<void> {
    if (this.#child.connected) this.#child.send('exit')
    await this.#exited
  }

  async kill(): Promise<void> {
    process.kill(this.pid, 'SIGKILL')
    await this.#exited
  }

  async #answer(): Promise<RaceAnswer | undefined> {
    return await new Promise((resolve) => {
      this.#child.once('message', (message) => resolve(message as RaceAnswer))
      void this.#exited.then(resolve)
    })
  }
}

const self = systemProcesses.self()
const holder: LockHolder = { ...self, startedAt: '2026-11-29T00:00:00.000Z', transport: 'test' }

let root: string
let racers: Racer[]
let deadPid: number

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'nexus-lock-race-'))
  racers = await Promise.all([Racer.start(), Racer.start(), Racer.start()])
  const gone = await Racer.start()
  deadPid = gone.pid
  await gone.end()
})

afterAll(async () => {
  await Promise.all(racers.map((racer) => racer.end()))
  rmSync(root, { recursive: true, force: true })
})

/** What `session.lock` holds. */
function read(dir: string): { pid: number; pid_namespace: string } {
  return JSON.parse(readFileSync(join(dir, 'session.lock'), 'utf8')) as { pid: number; pid_namespace: string }
}

let rounds = 0

function sessionWith(lock: string | undefined): string {
  rounds += 1
  const dir = join(root, `s${rounds}`)
  mkdirSync(dir)
  if (lock !== undefined) writeFileSync(join(dir, 'session.lock'), lock)
  return dir
}

/** Lets all racers try at once; returns the one that won and gives its lock back. */
async function raceFor(dir: string, among: Racer[] = racers): Promise<Racer> {
  const startAtMs = Date.now() + 3
  const answers = await Promise.all(among.map((racer) => racer.send({ dir, startAtMs })))
  const won = among.filter((_, index) => (answers[index] as { won?: boolean }).won === true)
  expect(answers.filter((answer) => answer !== undefined && 'won' in answer && answer.won)).toHaveLength(1)
  const winner = won[0] as Racer
  for (const answer of answers) {
    if (answer === undefined || !('won' in answer) || answer.won) continue
    expect(answer).toMatchObject({ won: false, code: 'LOCKED', heldPid: winner.pid })
  }
  expect(read(dir)).toMatchObject({
    pid: winner.pid,
    pid_start: expect.any(Number),
  })
  return winner
}

describe('processes that race for one session', () => {
  const stale: [string, () => string | undefined, number][] = [
    ['a dead process', () => serializeHolder({ ...holder, pid: deadPid, pidStart: 1 }), 150],
    ['a pid that another process has by now', () => serializeHolder({ ...holder, pidStart: self.pidStart - 1 }), 40],
    ['an earlier boot', () => serializeHolder({ ...holder, bootId: 'earlier' }), 40],
    ['nobody', () => undefined, 40],
    ['an empty file', () => '', 8],
    ['a torn file', () => serializeHolder(holder).slice(0, 40), 8],
  ]

  it.each(stale)('never both win a lock of %s', async (_name, lock, count) => {
    for (let round = 0; round < count; round++) {
      const dir = sessionWith(lock())
      const winner = await raceFor(dir)
      expect(readdirSync(dir)).toEqual(['session.lock'])
      await winner.send('release')
      expect(readLockState(dir)).toBe('free')
    }
  })

  it('take turns on one session without ever sharing it', async () => {
    const dir = sessionWith(serializeHolder({ ...holder, pid: deadPid, pidStart: 1 }))
    for (let round = 0; round < 60; round++) await (await raceFor(dir)).send('release')
    expect(readdirSync(dir)).toEqual([])
  })

  it('get past any number of processes that were killed while they took over', async () => {
    const dir = sessionWith(serializeHolder({ ...holder, pid: deadPid, pidStart: 1 }))
    const doomed = await Promise.all([Racer.start(), Racer.start(), Racer.start()])
    for (const racer of doomed) {
      expect(await racer.send({ dir, startAtMs: 0, dieBeforeRename: true })).toBeUndefined()
    }
    expect(readdirSync(dir).length).toBeGreaterThan(3)
    expect(readLockState(dir)).toBe('dead')
    const winner = await raceFor(dir)
    expect(readdirSync(dir)).toEqual(['session.lock'])
    await winner.send('release')
  })

  it('refuse the lock of a process that stands still: it may go on at any time', async () => {
    const dir = sessionWith(undefined)
    const [owner, other] = racers as [Racer, Racer]
    await owner.send({ dir, startAtMs: 0 })
    process.kill(owner.pid, 'SIGSTOP')
    try {
      expect(await other.send({ dir, startAtMs: 0 })).toMatchObject({ won: false, code: 'LOCKED', heldPid: owner.pid })
    } finally {
      process.kill(owner.pid, 'SIGCONT')
    }
    await owner.send('release')
    await (await raceFor(dir)).send('release')
  })

  it('in two containers on one volume do not mistake each other for dead by a pid that means nothing', async ({
    skip,
  }) => {
    const unshare = ['--pid', '--fork', '--kill-child', '--mount-proc']
    skip(spawnSync('unshare', [...unshare, 'true']).status !== 0, 'needs unshare and the right to make a pid namespace')
    const dir = sessionWith(undefined)
    const contained = await Racer.start(['unshare', ...unshare])
    expect(await contained.send({ dir, startAtMs: 0 })).toEqual({ won: true })
    // Its pid there is a small number, which here belongs to somebody else or to nobody.
    expect(read(dir).pid_namespace).not.toBe(self.pidNamespace)
    expect(await racers[0]?.send({ dir, startAtMs: 0 })).toMatchObject({
      won: false,
      code: 'LOCKED',
      heldPid: read(dir).pid,
      message: expect.stringContaining('another container'),
    })
    expect(readLockState(dir)).toBe('live')
    await contained.send('release')
    await contained.end()
    await (await raceFor(dir)).send('release')
  })

  it('find a lock dead whose process was killed and not yet waited for', async () => {
    const dir = sessionWith(undefined)
    const killed = await Racer.start()
    await killed.send({ dir, startAtMs: 0 })
    expect(readLockState(dir)).toBe('live')
    await killed.kill()
    expect(readLockState(dir)).toBe('dead')
    await (await raceFor(dir)).send('release')
  })
})
