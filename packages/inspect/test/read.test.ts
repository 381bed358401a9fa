import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { openSession } from '@nexus/engine'
import { isNexusError } from '@nexus/errors'
import { silentLogger } from '@nexus/host'
import { tempDir } from '@nexus/host/testing'
import { ObjectStore, type Backend } from '@nexus/objectstore'
import { createMemoryBackend } from '@nexus/objectstore-memory-test'
import { describe, expect, it } from 'vitest'
import { inspectSession, listSessions, type InspectedSession } from '../src/index.ts'
import { busySession, fingerprint } from './session-fixture.ts'

const logger = silentLogger

/** Reads all there is to read. */
async function readThrough(session: InspectedSession): Promise<{ rows: unknown; events: number; files: number }> {
  await session.metadata()
  let events = 0
  for await (const { seq } of await session.journal()) expect(seq).toBe(++events)
  const entries = await session.entries()
  for (const { path, kind } of entries) if (kind === 'file' && !path.startsWith('plugins/')) await session.read(path)
  for await (const blob of session.blobs()) expect(blob.mediaType).toBe('text/plain')
  const [path = ''] = await session.databases()
  const database = await session.openDatabase(path)
  expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
  return {
    rows: database.prepare('SELECT count(*) AS n, count(DISTINCT turn) AS turns FROM pairs').get(),
    events,
    files: entries.length,
  }
}

describe('a session that another process is running', () => {
  it('is read whole, each database as of one instant, while it is written to', async () => {
    const root = tempDir()
    const { dir } = await busySession(root, 's1')
    const sessionsRoot = join(root, 'sessions')
    expect(await listSessions({ sessionsRoot })).toMatchObject([
      { id: 's1', local: { dir, lock: { state: 'live' }, metadata: { id: 's1', status: 'active' } } },
    ])
    let before = 0
    for (let look = 0; look < 4; look++) {
      await using session = await inspectSession('s1', { sessionsRoot })
      const { rows } = await readThrough(session)
      const { n, turns } = rows as { n: number; turns: number }
      expect(n).toBe(2 * turns)
      expect(turns).toBeGreaterThanOrEqual(Math.max(50, before))
      before = turns
    }
  })
})

describe('a session that has ended', () => {
  it('by SIGKILL is read without changing one byte, one time or one name of its tree', async () => {
    const root = tempDir()
    const { dir, kill } = await busySession(root, 's1')
    await kill()
    expect(readdirSync(join(dir, 'plugins/main'))).toContain('store.db-wal')
    const before = fingerprint(root)
    const scratchDir = tempDir()
    {
      await using session = await inspectSession('s1', { sessionsRoot: join(root, 'sessions'), scratchDir })
      expect([session.source, session.where, session.generation]).toEqual(['local', dir, undefined])
      const { rows, events } = await readThrough(session)
      expect((rows as { turns: number }).turns).toBeGreaterThanOrEqual(50)
      expect(events).toBeGreaterThan(5)
      expect(await text(await session.open('files/report.txt'))).toBe('a report')
    }
    expect(fingerprint(root)).toEqual(before)
    expect(readdirSync(scratchDir)).toEqual([])
  })

  it('is not followed through links, and nothing outside of it is read', async () => {
    const root = tempDir()
    const ended = await openSession({ id: 's1', root, logger })
    await ended.close()
    const { dir } = ended
    const outside = tempDir()
    writeFileSync(join(outside, 'secret'), 'secret')
    symlinkSync(join(outside, 'secret'), join(dir, 'files/link'))
    symlinkSync(outside, join(dir, 'files/dir'))
    await using session = await inspectSession('s1', { sessionsRoot: join(root, 'sessions') })
    const links = (await session.entries()).filter(({ kind }) => kind === 'link')
    expect(links.map(({ path, target }) => [path, target])).toEqual([
      ['files/dir', outside],
      ['files/link', join(outside, 'secret')],
    ])
    for (const path of ['files/link', 'files/dir/secret', '../s1/files/report.txt', '/etc/hostname']) {
      expect(await session.read(path).catch(isNexusError)).toBe(true)
      expect(await session.openDatabase(path).catch(isNexusError)).toBe(true)
    }
  })
})

describe('a session that this process is running', () => {
  it('is read, except for databases, whose locks that would drop', async () => {
    const root = tempDir()
    const running = await openSession({ id: 's1', root, logger })
    await running.workspace.writeFile('files/a', 'a')
    running.storage().put('key', 'value')
    await using session = await inspectSession('s1', { sessionsRoot: join(root, 'sessions') })
    expect((await session.read('files/a')).toString()).toBe('a')
    const [database = ''] = await session.databases()
    for (const reading of [session.openDatabase(database), session.read(database)]) {
      await expect(reading).rejects.toMatchObject({ code: 'PRECONDITION' })
    }
    await running.close()
  })
})

describe.each([
  ['that gives single objects', true],
  ['that gives whole prefixes only', false],
])('a session in a store %s', (_name, single) => {
  it('is read as of its newest commit, and nothing is written there', async () => {
    const memory = createMemoryBackend()
    const five: Backend = {
      hydrate: (prefix, dir, options) => memory.hydrate(prefix, dir, options),
      put: (key, path, options) => memory.put(key, path, options),
      delete: (key, options) => memory.delete(key, options),
      list: (prefix, options) => memory.list(prefix, options),
      flush: (options) => memory.flush(options),
    }
    const backend = single ? memory : five
    const store = new ObjectStore(backend, { name: 'memory' })
    const running = await openSession({ id: 's1', root: tempDir(), store: backend, logger })
    await running.workspace.writeFile('files/a', 'committed')
    await running.workspace.writeFile('files/empty', '')
    await running.blobs.put(Buffer.from('a blob'), 'text/plain')
    running
      .storage('main')
      .db.exec('CREATE TABLE pairs (turn INTEGER, side TEXT); INSERT INTO pairs VALUES (1, 2), (1, 3)')
    await running.commit()
    const { generation } = running.status().durability ?? {}
    await running.workspace.writeFile('files/a', 'not yet')
    await running.abandon()
    const calls = memory.faults.calls.length
    {
      await using session = await inspectSession('s1', { store })
      expect([session.source, session.where, session.generation]).toEqual(['store', 'sessions/s1', generation])
      expect(await readThrough(session)).toMatchObject({ rows: { n: 2, turns: 1 } })
      expect(await text(await session.open('files/a'))).toBe('committed')
      expect(await text(await session.open('files/empty'))).toBe('')
      expect(await session.metadata()).toMatchObject({ id: 's1' })
      expect(await listSessions({ store })).toMatchObject([{ id: 's1', stored: { head: { generation } } }])
      await expect(session.read('files/none')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    }
    const verbs = new Set(memory.faults.calls.slice(calls).map(({ op }) => op as string))
    expect([...verbs].filter((verb) => !['get', 'list', 'listNames', 'hydrate'].includes(verb))).toEqual([])
  })
})

it('gives a file that an interrupted commit replaced as damaged, and one that it appended to as it was committed', async () => {
  const backend = createMemoryBackend()
  const store = new ObjectStore(backend, { name: 'memory' })
  const running = await openSession({ id: 's1', root: tempDir(), store: backend, logger })
  await running.workspace.writeFile('files/a', 'committed')
  await running.workspace.writeFile('files/b', 'committed')
  await running.close()
  const local = join(tempDir(), 'object')
  writeFileSync(local, 'committed and more')
  await backend.put('sessions/s1/files/a', local)
  {
    await using session = await inspectSession('s1', { store })
    expect((await session.read('files/a')).toString()).toBe('committed')
  }
  await backend.delete('sessions/s1/files/b')
  await using session = await inspectSession('s1', { store })
  await expect(session.read('files/b')).rejects.toMatchObject({ code: 'CORRUPT' })
})

it('says where it looked for a session that is nowhere, and what it can’t give', async () => {
  const sessionsRoot = tempDir()
  const backend = createMemoryBackend()
  const store = new ObjectStore(backend, { name: 'memory' })
  mkdirSync(join(sessionsRoot, 'not-a-session'))
  expect(await listSessions({ sessionsRoot, store })).toEqual([])
  expect(await listSessions({ sessionsRoot: join(sessionsRoot, 'none') })).toEqual([])
  await expect(inspectSession('s1', { sessionsRoot, store })).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: expect.stringContaining(sessionsRoot) as string,
  })
  await expect(inspectSession('../s1', { sessionsRoot })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  const running = await openSession({ id: 's1', root: tempDir(), store: backend, logger })
  await running.close()
  await expect(inspectSession('s1', { store, generation: 99 })).rejects.toMatchObject({ code: 'UNSUPPORTED' })
})
