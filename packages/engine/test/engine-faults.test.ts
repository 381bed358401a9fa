import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { JournalReader } from '@nexus/journal'
import { afterEach, beforeEach, describe, expect, it, type TestContext } from 'vitest'
import type { Plugin } from '../src/index.ts'
import { EngineLab, history, rows, scribe } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

/** Boots a plugin whose `init` is given. */
function pluginThat(init: Plugin['init'], id = 'test.other'): Plugin {
  return { id, name: id, version: '1.0.0', init }
}

describe('a boot that fails', () => {
  it('gives the lock back and leaves the session as it was', async () => {
    const first = await lab.booted('a', { stored: false })
    await first.submitInput('one')
    await first.stop()
    const broken = pluginThat(() => {
      throw new Error('no such model')
    })
    const failing = await lab.engine('a', {
      stored: false,
      recallSessionId: first.sessionId,
      plugins: [scribe, broken],
    })
    await expect(failing.boot()).rejects.toThrow(/test\.other.*no such model/)
    expect(failing.status().phase).toBe('failed')
    const third = await lab.booted('a', { stored: false, recallSessionId: first.sessionId })
    expect(await history(third)).toBe('one\n')
  })

  it('leaves nothing at the path of a session whose hydration failed half way', async () => {
    const first = await lab.booted('a')
    await first.submitInput('one')
    await first.stop()
    lab.backend.faults.failWhen(({ key }) => key.endsWith('conversation.jsonl'), new Error('connection reset'))
    const second = await lab.engine('b', { recallSessionId: first.sessionId })
    await expect(second.boot()).rejects.toThrow(/connection reset/)
    expect(readdirSync(lab.sessionsRoot('b')).filter((name) => name.includes(first.sessionId))).toEqual([])
    lab.backend.faults.heal()
    const third = await lab.booted('b', { recallSessionId: first.sessionId })
    expect(await history(third)).toBe('one\n')
  })

  it('never takes an outage for a session that nobody has seen', async () => {
    const first = await lab.booted('a')
    await first.submitInput('one')
    await first.stop()
    lab.backend.faults.failWhen(() => true, new Error('503 slow down'))
    const second = await lab.engine('b', { recallSessionId: first.sessionId })
    await expect(second.boot()).rejects.toThrow(/503 slow down/)
    expect(existsSync(lab.sessionDir('b', first.sessionId))).toBe(false)
  })

  it('names the process that holds the session', async () => {
    const first = await lab.booted('a', { stored: false })
    const second = await lab.engine('a', { stored: false, recallSessionId: first.sessionId })
    await expect(second.boot()).rejects.toMatchObject({ code: 'LOCKED', name: 'SessionLockedError' })
    await first.submitInput('still mine')
  })

  it.each(['../x', 'a/b', '.', '', 'x'.repeat(300), 'CON', 'x\0y', '__proto__', 'a.manifest'])(
    'refuses the session id %j before anything is touched',
    async (recallSessionId) => {
      await expect(lab.engine('a', { recallSessionId })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      expect(existsSync(join(lab.dir, 'a'))).toBe(false)
      expect(lab.backend.faults.calls).toEqual([])
    },
  )
})

/** Runs `work` on a small or read-only file system of its own, where this process may mount one. */
async function onMount(context: TestContext, options: string, work: (dir: string) => Promise<void>): Promise<void> {
  const dir = join(lab.dir, 'mount')
  mkdirSync(dir)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', dir], { stdio: 'pipe' })
  } catch (error) {
    context.skip(`needs the right to mount a tmpfs: ${String(error)}`)
  }
  try {
    await work(dir)
  } finally {
    execFileSync('umount', ['-l', dir])
  }
}

describe('a data root that refuses writes', () => {
  it('fails the boot with the path when it is read-only', async (context) => {
    await onMount(context, 'ro', async (dir) => {
      const engine = await lab.engine('a', {
        core: { sessions: { root: join(dir, 'sessions') }, storage: { root: dir } },
      })
      await expect(engine.boot()).rejects.toThrow(dir)
    })
  })

  it('refuses input with the reason while it is full, and goes on when there is room', async (context) => {
    await onMount(context, 'size=1m', async (dir) => {
      const core = { sessions: { root: join(dir, 'sessions'), retention: 0 as const }, storage: { root: dir } }
      const engine = await lab.booted('a', { core })
      await engine.submitInput('one')
      const ballast = join(dir, 'ballast')
      for (const size of [2 ** 16, 2 ** 12, 2 ** 10, 1]) {
        for (;;) {
          try {
            writeFileSync(ballast, Buffer.alloc(size), { flag: 'a' })
          } catch {
            break
          }
        }
      }
      await engine.submitInput('two')
      const refused = await engine.submitInput('three')
      expect(refused).toMatchObject({ accepted: false })
      expect(refused.reason).toMatch(/journal/)
      writeFileSync(ballast, '')
      await expect.poll(async () => (await engine.submitInput('four')).accepted, { timeout: 20_000 }).toBe(true)
      await engine.stop()
      const seqs: number[] = []
      const reader = await JournalReader.open(join(core.sessions.root, engine.sessionId, 'journal'))
      for await (const { seq } of reader) seqs.push(seq)
      expect(reader.damage).toEqual([])
      expect(seqs).toEqual(seqs.map((_, index) => index + 1))
    })
  })
})

describe('turn boundaries under odd conditions', () => {
  it('stay durable while a before-handler never settles', async () => {
    const config = { engine: { shutdown: { drain_timeout: '1s' as const } } }
    const engine = await lab.booted('a', { config })
    engine.bus.subscribe('before:tool.invoke', () => new Promise(() => undefined))
    void engine.bus.emitVetoable('before:tool.invoke', { id: '1', name: 'slow', arguments: {} })
    for (const content of ['one', 'two', 'three']) await engine.submitInput(content)
    await engine.abandon()
    const second = await lab.booted('b', { recallSessionId: engine.sessionId })
    expect(await history(second)).toBe('one\ntwo\nthree\n')
    expect(rows(second)).toEqual(['one', 'two', 'three'])
  })

  it('store exactly what is committed of databases with an iterator, a transaction or functions of their own', async () => {
    const engine = await lab.booted('a')
    const iterating = engine.storage.open('session', 'test.iterating').db
    iterating.exec('CREATE TABLE t (x); INSERT INTO t VALUES (1), (2), (3)')
    const iterator = iterating.prepare('SELECT x FROM t').iterate()
    iterator.next()
    const open = engine.storage.open('session', 'test.open').db
    open.exec("CREATE TABLE t (x); INSERT INTO t VALUES ('kept'); BEGIN; INSERT INTO t VALUES ('open')")
    const custom = engine.storage.open('session', 'test.custom').db
    custom.function('twice', { deterministic: true }, (x: unknown) => Number(x) * 2)
    custom.exec('CREATE TABLE t (x); CREATE INDEX i ON t (twice(x)); INSERT INTO t VALUES (21)')
    await engine.submitInput('one')
    expect(engine.status().durability).toMatchObject({ degraded: false, lastSnapshot: { ok: true } })
    iterator.return?.()
    await engine.abandon()

    const second = await lab.booted('b', { recallSessionId: engine.sessionId })
    const read = (id: string): unknown[] =>
      second.storage.open('session', id).db.prepare('SELECT x FROM t').pluck().all()
    expect(read('test.iterating')).toEqual([1, 2, 3])
    expect(read('test.open')).toEqual(['kept'])
    expect(read('test.custom')).toEqual([21])
  })

  it('commit fifty turns while files come and go and a link dangles', async () => {
    const engine = await lab.booted('a')
    const { filesDir } = engine.session
    execFileSync('ln', ['-s', '/nowhere/at/all', join(filesDir, 'dangling')])
    writeFileSync(join(filesDir, 'steady.txt'), 'steady')
    const churn = execChurn(filesDir)
    try {
      for (let turn = 0; turn < 50; turn += 1) await engine.submitInput(`turn ${turn}`)
    } finally {
      await churn.stop()
    }
    expect(engine.status().durability).toMatchObject({ degraded: false, lastSnapshot: { ok: true } })
    await engine.abandon()
    const second = await lab.booted('b', { recallSessionId: engine.sessionId })
    expect(readFileSync(join(second.session.filesDir, 'steady.txt'), 'utf8')).toBe('steady')
    expect((await history(second)).trim().split('\n')).toHaveLength(50)
    expect(readdirSync(second.session.filesDir)).toContain('dangling')
  })
})

/** A process that creates, renames and deletes files below `dir` as fast as it can. */
function execChurn(dir: string): { stop: () => Promise<void> } {
  const script = `
    const fs = require('fs'); const dir = process.argv[1]; let n = 0
    const work = () => { for (let i = 0; i < 20; i++) { const p = dir + '/tmp-' + (n++ % 7)
      try { fs.writeFileSync(p, 'x'.repeat(n % 997)); fs.renameSync(p, p + '-r'); fs.unlinkSync(p + '-r') } catch {} }
      setImmediate(work) }
    work()`
  const child = spawnNode(script, dir)
  return {
    stop: async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
    },
  }
}

function spawnNode(script: string, ...args: string[]): ChildProcess {
  return spawn(process.execPath, ['-e', script, ...args], { stdio: 'ignore' })
}
