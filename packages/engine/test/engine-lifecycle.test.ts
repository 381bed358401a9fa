import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Engine, silentLogger, type EngineOptions, type Plugin } from '../src/index.ts'

let dir: string
let backend: MemoryBackend
const running: Engine[] = []

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nexus-engine-'))
  backend = createMemoryBackend()
})

afterEach(async () => {
  for (const engine of running.splice(0)) await engine.stop().catch(() => undefined)
  rmSync(dir, { recursive: true, force: true })
})

/** Writes one line per input and ends the turn. */
const scribe: Plugin = {
  id: 'test.scribe',
  name: 'Scribe',
  version: '1.0.0',
  init(context) {
    const { bus, session } = context
    const { db } = context.storage('session')
    db.exec('CREATE TABLE IF NOT EXISTS lines (text TEXT)')
    bus.subscribe('io.input', async (event) => {
      const turn = { turn_id: event.id, session_id: session.id }
      await event.emit('agent.turn.start', turn)
      await session.appendFile('context/conversation.jsonl', `${event.payload.content}\n`)
      db.prepare('INSERT INTO lines VALUES (?)').run(event.payload.content)
      await event.emit('agent.turn.end', turn)
    })
  },
}

async function engineOn(host: string, options: EngineOptions & { stored?: boolean } = {}): Promise<Engine> {
  const { stored = true, ...rest } = options
  const root = join(dir, host)
  const engine = await Engine.fromConfig(
    { core: { sessions: { root: join(root, 'sessions'), retention: 0 }, storage: { root } } },
    { plugins: [scribe], logger: silentLogger, ...(stored ? { backend } : {}), ...rest },
  )
  running.push(engine)
  return engine
}

async function history(engine: Engine): Promise<string> {
  return (await engine.session.readFile('context/conversation.jsonl')).toString()
}

describe('a session without a store', () => {
  it('is resumed from its local tree as the last run left it', async () => {
    const first = await engineOn('a', { stored: false })
    await first.boot()
    await first.submitInput('one')
    await first.stop()
    const second = await engineOn('a', { stored: false, recallSessionId: first.sessionId })
    await second.boot()
    await second.submitInput('two')
    expect(await history(second)).toBe('one\ntwo\n')
    expect(second.storage.open('session', scribe.id).db.prepare('SELECT text FROM lines').pluck().all()).toEqual([
      'one',
      'two',
    ])
    expect(second.session.meta()).toMatchObject({ status: 'active', turnCount: 2 })
  })

  it('leaves nothing of object storage behind', async () => {
    const engine = await engineOn('a', { stored: false })
    await engine.boot()
    await engine.submitInput('one')
    await engine.stop()
    expect(readdirSync(join(dir, 'a', 'sessions'))).toEqual([engine.sessionId])
    await expect(engine.commit()).rejects.toMatchObject({ code: 'PRECONDITION' })
  })
})

describe('a session with a store', () => {
  it('is resumed on a host that never saw it as the last completed turn left it', async () => {
    const first = await engineOn('a')
    await first.boot()
    await first.submitInput('one')
    await first.session.writeFile('files/after.md', 'after the boundary')
    await first.abandon()
    const second = await engineOn('b', { recallSessionId: first.sessionId })
    await second.boot()
    expect(await history(second)).toBe('one\n')
    expect(await second.session.fileExists('files/after.md')).toBe(false)
    expect(second.storage.open('session', scribe.id).db.prepare('SELECT text FROM lines').pluck().all()).toEqual([
      'one',
    ])
  })

  it('ends with a final snapshot that says so', async () => {
    const engine = await engineOn('a')
    await engine.boot()
    await engine.session.writeFile('files/late.md', 'no turn after this')
    await engine.stop()
    const tree = `sessions/${engine.sessionId}`
    expect([...backend.objects.keys()]).toContain(`${tree}/files/late.md`)
    expect([...backend.objects.keys()]).not.toContain(`${tree}.owner/owner.json`)
    expect(readFileSync(join(dir, 'a', 'sessions', engine.sessionId, 'metadata/session.json'), 'utf8')).toContain(
      '"ended"',
    )
    expect(existsSync(join(dir, 'a', 'sessions', engine.sessionId, 'session.lock'))).toBe(false)
  })
})
