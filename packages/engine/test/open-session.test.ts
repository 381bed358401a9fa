import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { ObjectNotFoundError, register, unregister } from '@nexus/objectstore'
import { createMemoryBackend, withoutCapabilities } from '@nexus/objectstore-memory-test'
import { silentLogger } from '@nexus/host'
import { tempDir } from '@nexus/host/testing'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openSession, type NexusEvent, type OpenSessionOptions } from '../src/index.ts'
import { listArchives, restoreSession, rewindSession } from '../src/journal.ts'

const logger = silentLogger

describe('openSession', () => {
  it('hands over every event from the first on, what the boot found out included', async () => {
    const store = createMemoryBackend()
    const [hostA, hostB] = [tempDir(), tempDir()]
    const onA = await openSession({ id: 's1', root: hostA, store, logger })
    await onA.workspace.writeFile('files/a', 'a')
    await onA.commit()
    await onA.abandon()
    const onB = await openSession({ id: 's1', root: hostB, store, logger })
    await onB.workspace.writeFile('files/a', 'b')
    await onB.close()
    const seen: NexusEvent[] = []
    const back = await openSession({ id: 's1', root: hostA, store, logger, onEvent: (event) => void seen.push(event) })
    expect(seen[0]?.type).toBe('core.boot')
    expect(seen.map(({ type }) => type)).toContain('session.local.stale')
    expect((await back.workspace.readFile('files/a')).toString()).toBe('b')
    await back.close()
  })

  it('says whether the session existed, and how it stands, also after the end', async () => {
    const root = tempDir()
    const first = await openSession({ id: 's1', root, logger })
    expect([first.resumed, first.status().phase]).toEqual([false, 'running'])
    await first.close()
    expect(first.status().phase).toBe('stopped')
    const second = await openSession({ id: 's1', root, logger })
    expect(second.resumed).toBe(true)
    await second.close()
  })

  it('closes at the end of an `await using`', async () => {
    const root = tempDir()
    let seen: () => string = () => ''
    {
      await using session = await openSession({ id: 's1', root, logger })
      seen = () => session.status().phase
      expect(seen()).toBe('running')
    }
    expect(seen()).toBe('stopped')
  })

  it('stores nothing when it is closed and nothing changed since the last commit', async () => {
    const store = createMemoryBackend()
    const session = await openSession({ id: 's1', root: tempDir(), store, logger })
    await session.workspace.writeFile('files/a', 'a')
    await session.commit()
    const puts = (): string[] => store.faults.calls.filter(({ op }) => op === 'put').map(({ key }) => key)
    const before = puts().length
    await session.close()
    expect(before).toBeGreaterThan(0)
    expect(puts().slice(before)).toEqual([])
    const other = await openSession({ id: 's1', root: tempDir(), store, logger })
    await other.workspace.writeFile('files/a', 'b')
    await other.close()
    expect(puts().slice(before)).toContain('sessions/s1/files/a')
  })

  it('begins no session on the word of a store that does not give back what it took', async () => {
    const backend = createMemoryBackend()
    // A driver that tells a refusal as a miss: an empty store looks just like it.
    const get = (key: string): Promise<void> => Promise.reject(new ObjectNotFoundError(key))
    register('telling-misses', () => ({ ...withoutCapabilities(backend, ['close']), get }))
    const root = tempDir()
    const block = { backend: 'telling-misses', bucket: 'b' }
    const strict = openSession({ id: 's1', root, logger, store: { ...block, failure_policy: 'strict' } })
    await expect(strict).rejects.toMatchObject({
      code: 'PRECONDITION',
      key: expect.stringMatching(/^probe\/[0-9a-f]{16}$/),
    })
    expect(existsSync(join(root, 'sessions', 's1'))).toBe(false)
    const seen: NexusEvent[] = []
    const told = await openSession({ id: 's1', root, logger, store: block, onEvent: (event) => void seen.push(event) })
    expect(seen.filter(({ type }) => type === 'core.error')).toHaveLength(1)
    await told.abandon()
    unregister('telling-misses')
  })

  it('waits no longer for a commit than it was told', async () => {
    const store = createMemoryBackend()
    const session = await openSession({ id: 's1', root: tempDir(), store, logger })
    await expect(session.commit({ signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough')
    await session.commit({ reason: 'again', timeoutMs: 60_000 })
    await session.close()
  })

  it('takes the journal and engine blocks, and refuses what is wrong in them', async () => {
    const root = tempDir()
    const config = { journal: { fsync: 'none' as const }, engine: { shutdown: { drain_timeout: '2s' as const } } }
    const session = await openSession({ id: 's1', root, logger, config })
    await session.close()
    await expect(openSession({ root, logger, config: { journal: { fsync: 'often' as never } } })).rejects.toThrow(
      /often/,
    )
  })

  it.each([
    [{ id: 7 }, 'id'],
    [{ root: new URL('file:///tmp') }, 'root'],
    [{ store: 'fs' }, 'store'],
    [{ store: {} }, 'store'],
    [{ config: { core: {} } }, 'config'],
    [{ onEvent: {} }, 'onEvent'],
    [{ logger: 'silent' }, 'logger'],
    [{ waitForLock: '5s' }, 'waitForLock'],
    [{ waitForLock: -1 }, 'waitForLock'],
    [{ stoer: {} }, 'stoer'],
    [{ constructor: 1 }, 'constructor'],
  ])('refuses %j before anything is touched', async (options, key) => {
    const root = tempDir()
    const given = { root, ...options } as OpenSessionOptions
    await expect(openSession(given)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', key })
    expect(readdirSync(root)).toEqual([])
  })

  it('refuses a session that is open, as something to try again', async () => {
    const root = tempDir()
    const first = await openSession({ id: 's1', root, logger })
    await expect(openSession({ id: 's1', root, logger })).rejects.toMatchObject({ code: 'LOCKED', retryable: true })
    const waiting = openSession({ id: 's1', root, logger, waitForLock: 20_000 })
    await first.close()
    await (await waiting).close()
  })
})

describe('going back in a journal', () => {
  it('is refused while the session is open, and the next boot goes on from there', async () => {
    const store = createMemoryBackend()
    const root = tempDir()
    const session = await openSession({ id: 's1', root, store, logger })
    await session.bus.emit('agent.turn.end', { turn_id: 't1', session_id: 's1' })
    const { dir } = session
    await expect(rewindSession(dir, 1)).rejects.toMatchObject({ code: 'LOCKED' })
    await session.close()
    const { lastSeq, archive } = await rewindSession(dir, 2)
    expect(lastSeq).toBe(2)
    expect(readdirSync(dir)).not.toContain('session.lock')
    const again = await openSession({ id: 's1', root, store, logger })
    await again.close()
    expect(readdirSync(join(root, 'sessions')).filter((name) => name.startsWith('.stale'))).toEqual([])
    expect((await listArchives(join(dir, 'journal'))).map(({ name }) => name)).toContain(archive)
    expect((await restoreSession(dir, archive)).lastSeq).toBeGreaterThan(2)
  })
})

describe('a session whose open failed', () => {
  it.each(['mirror', 'versioned'] as const)('can be opened again by this very process, layout %s', async (layout) => {
    const backend = createMemoryBackend()
    const name = `open-failed-${layout}`
    register(name, async () => backend)
    onTestFinished(() => void unregister(name))
    const store = { backend: name, bucket: 'b', layout, failure_policy: 'strict' } as const
    const first = await openSession({ id: 's1', root: tempDir(), store, logger })
    await first.workspace.writeFile('files/a', 'a')
    await first.close()

    // Each call of a boot on another machine fails in turn: behind some of them the tree is in its place already.
    const root = tempDir()
    for (let nth = 1; ; nth++) {
      const from = backend.faults.calls.length
      backend.faults.failWhen(({ index }) => index >= from + nth)
      const failed = await openSession({ id: 's1', root, store, logger }).then(
        (session) => session.abandon().then(() => undefined),
        (error: unknown) => error,
      )
      backend.faults.heal()
      if (failed === undefined) break
      expect(failed).toMatchObject({ code: expect.not.stringMatching('LOCKED') as string })
    }
    const again = await openSession({ id: 's1', root, store, logger })
    expect((await again.workspace.readFile('files/a')).toString()).toBe('a')
    await again.close()
  })
})

describe('a turn of a session', () => {
  it('is begun, ended and committed', async () => {
    const store = createMemoryBackend()
    const seen: NexusEvent[] = []
    const onEvent = (event: NexusEvent): void => void seen.push(event)
    const session = await openSession({ id: 's1', root: tempDir(), store, logger, onEvent })
    const { value, turnId, generation } = await session.turn(async (id) => {
      await session.workspace.writeFile('files/a', id)
      return 'done'
    })
    expect([value, generation]).toEqual(['done', session.status().durability?.generation])
    const turns = seen.filter(({ type }) => type.startsWith('agent.turn.'))
    expect(turns.map(({ type, payload }) => [type, payload])).toMatchObject([
      ['agent.turn.start', { turn_id: turnId, session_id: 's1' }],
      ['agent.turn.end', { turn_id: turnId, session_id: 's1' }],
    ])
    await session.abandon()
    const elsewhere = await openSession({ id: 's1', root: tempDir(), store, logger })
    expect((await elsewhere.workspace.readFile('files/a')).toString()).toBe(turnId)
    await elsewhere.close()
  })

  it('ends as failed, and is committed as that, when its work throws', async () => {
    const store = createMemoryBackend()
    const seen: NexusEvent[] = []
    const onEvent = (event: NexusEvent): void => void seen.push(event)
    const session = await openSession({ id: 's1', root: tempDir(), store, logger, onEvent })
    const failed = session.turn(async () => {
      await session.workspace.writeFile('files/a', 'half')
      throw new Error('no more tokens')
    })
    await expect(failed).rejects.toThrow('no more tokens')
    expect(seen.findLast(({ type }) => type === 'agent.turn.end')?.payload).toMatchObject({ error: 'no more tokens' })
    expect(session.status().durability?.generation).toBe(1)
    await session.close()
  })

  it('rejects when its commit fails, and is in the next one', async () => {
    const store = createMemoryBackend()
    const session = await openSession({ id: 's1', root: tempDir(), store, logger })
    store.faults.failWhen(({ op }) => op === 'put')
    const first = session.turn(() => session.workspace.writeFile('files/a', 'a'))
    await expect(first).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true })
    store.faults.heal()
    const { generation } = await session.turn(() => session.workspace.writeFile('files/b', 'b'))
    expect(generation).toBeGreaterThan(0)
    await session.abandon()
    const elsewhere = await openSession({ id: 's1', root: tempDir(), store, logger })
    expect(await elsewhere.workspace.listFiles('files')).toEqual(['a', 'b'])
    await elsewhere.close()
  })

  it('needs no store', async () => {
    const session = await openSession({ id: 's1', root: tempDir(), logger })
    expect(await session.turn(() => 1)).toEqual({ value: 1, turnId: expect.any(String) as string })
    await session.close()
  })
})
