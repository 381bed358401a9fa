import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Plugin } from '../src/index.ts'
import { keepingLogger } from '@nexus/host/testing'
import { EngineLab, history, rows } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

describe('a session without a store', () => {
  it('is resumed from its local tree as the last run left it', async () => {
    const first = await lab.booted('a', { stored: false })
    await first.submitInput('one')
    await first.stop()
    const second = await lab.booted('a', { stored: false, recallSessionId: first.sessionId })
    await second.submitInput('two')
    expect(await history(second)).toBe('one\ntwo\n')
    expect(rows(second)).toEqual(['one', 'two'])
    expect(second.session.meta()).toMatchObject({ status: 'active', turnCount: 2 })
  })

  it('leaves nothing of object storage behind', async () => {
    const engine = await lab.booted('a', { stored: false })
    await engine.submitInput('one')
    await expect(engine.commit()).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    expect(engine.status().durability).toBeUndefined()
    await engine.stop()
    expect(readdirSync(lab.sessionsRoot('a'))).toEqual([engine.sessionId])
  })

  it('never calls a backend that is registered but not named', async () => {
    const engine = await lab.booted('a', { stored: false })
    await engine.submitInput('one')
    await engine.stop()
    expect(lab.backend.faults.calls).toEqual([])
  })
})

describe('a session with a store', () => {
  it('is resumed on a host that never saw it as the last completed turn left it', async () => {
    const first = await lab.booted('a')
    await first.submitInput('one')
    await first.session.writeFile('files/after.md', 'after the boundary')
    await first.abandon()
    const second = await lab.booted('b', { recallSessionId: first.sessionId })
    expect(await history(second)).toBe('one\n')
    expect(await second.session.fileExists('files/after.md')).toBe(false)
    expect(rows(second)).toEqual(['one'])
  })

  it('goes on across hosts with one ascending generation', async () => {
    const first = await lab.booted('a')
    await first.submitInput('one')
    await first.stop()
    const generations = [first.status().durability?.generation ?? 0]
    for (const host of ['b', 'c', 'a']) {
      const next = await lab.booted(host, { recallSessionId: first.sessionId })
      await next.submitInput(host)
      await next.stop()
      generations.push(next.status().durability?.generation ?? 0)
    }
    expect(generations).toEqual(generations.toSorted((left, right) => left - right))
    expect(new Set(generations).size).toBe(generations.length)
    const last = await lab.booted('d', { recallSessionId: first.sessionId })
    expect(await history(last)).toBe('one\nb\nc\na\n')
  })

  it('ends with a final snapshot that says so, and gives everything back', async () => {
    const engine = await lab.booted('a')
    await engine.session.writeFile('files/late.md', 'no turn after this')
    await engine.stop()
    const dir = lab.sessionDir('a', engine.sessionId)
    const keys = [...lab.backend.objects.keys()]
    expect(keys).toContain(`sessions/${engine.sessionId}/files/late.md`)
    expect(keys).not.toContain(`sessions/${engine.sessionId}.owner/owner.json`)
    expect(readFileSync(join(dir, 'metadata/session.json'), 'utf8')).toContain('"ended"')
    expect(existsSync(join(dir, 'session.lock'))).toBe(false)
  })

  it('keeps the original bytes of its configuration, without expanded secrets', async () => {
    const { Engine, silentLogger } = await import('../src/index.ts')
    process.env['NEXUS_TEST_ROOT'] = join(lab.dir, 'a')
    const yaml =
      '# mine\ncore:\n  sessions: {root: "${NEXUS_TEST_ROOT}/sessions", retention: 0}\n  storage: {root: "${NEXUS_TEST_ROOT}"}\n'
    const engine = await Engine.fromYaml(yaml, { logger: silentLogger, backend: lab.backend })
    await engine.boot()
    await engine.stop()
    const stored = lab.backend.objects.get(`sessions/${engine.sessionId}/metadata/config-snapshot.yaml`)
    expect(stored?.bytes.toString()).toBe(yaml)
  })
})

it('is told, once, of a turn that is never ended', async () => {
  const forgetful: Plugin = {
    id: 'test.forgetful',
    name: 'Forgetful',
    version: '1.0.0',
    init: ({ bus }) => {
      bus.subscribe('io.input', async (event) => {
        const turn = { turn_id: event.id, session_id: event.causation.session_id }
        await event.emit('agent.turn.start', turn)
        await event.emit('agent.turn.ended', turn)
      })
    },
  }
  const logger = keepingLogger()
  const engine = await lab.booted('a', { plugins: [forgetful], logger })
  for (let input = 0; input < 2; input += 1) await engine.submitInput('x')
  const told = logger.lines.filter(({ message }) => message.includes('no turn has ended'))
  expect(told).toHaveLength(1)
})

describe('the end of a run', () => {
  it('is reached once by any number of stops', async () => {
    const engine = await lab.booted('a')
    await engine.submitInput('one')
    const stop = engine.stop()
    expect(engine.stop()).toBe(stop)
    await stop
    await engine.stop()
    await engine.abandon()
    await expect(engine.submitInput('late')).rejects.toMatchObject({ code: 'PRECONDITION' })
  })

  it('writes nothing remote in a stop after an abandon, and releases what is local', async () => {
    const engine = await lab.booted('a')
    await engine.submitInput('one')
    await engine.session.writeFile('files/after.md', 'lost')
    await engine.abandon()
    await engine.abandon()
    const before = lab.backend.faults.calls.length
    await engine.stop()
    expect(lab.backend.faults.calls.slice(before).filter(({ op }) => op === 'put' || op === 'delete')).toEqual([])
    expect([...lab.backend.objects.keys()]).toContain(`sessions/${engine.sessionId}.owner/owner.json`)
    expect(existsSync(join(lab.sessionDir('a', engine.sessionId), 'session.lock'))).toBe(false)
  })

  it('is safe on an engine that never booted', async () => {
    const stopped = await lab.engine('a')
    await stopped.stop()
    const abandoned = await lab.engine('a')
    await abandoned.abandon()
    await abandoned.stop()
    await expect(stopped.boot()).rejects.toMatchObject({ code: 'PRECONDITION' })
  })

  it('waits for a boot under way', async () => {
    const engine = await lab.engine('a')
    const booting = engine.boot()
    await engine.stop()
    await booting
    expect(engine.status().phase).toBe('stopped')
    expect(existsSync(join(lab.sessionDir('a', engine.sessionId), 'session.lock'))).toBe(false)
  })

  it('gives up on a boot that does not end, which then gives back what it took', async () => {
    let finish: () => void = () => undefined
    const plugin = {
      id: 'test.slow',
      name: 'Slow',
      version: '1.0.0',
      init: () => new Promise<void>((resolve) => (finish = resolve)),
    }
    const engine = await lab.engine('a', {
      plugins: [plugin],
      config: { engine: { shutdown: { drain_timeout: '100ms' } } },
    })
    const booting = engine.boot()
    await engine.stop()
    expect(engine.status().phase).toBe('stopped')
    finish()
    await expect(booting).rejects.toMatchObject({ code: 'ABORTED' })
    expect(existsSync(join(lab.sessionDir('a', engine.sessionId), 'session.lock'))).toBe(false)
  })
})
