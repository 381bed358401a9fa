import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { openSession } from '@nexus/engine'
import { silentLogger } from '@nexus/host'
import { tempDir } from '@nexus/host/testing'
import { ObjectStore } from '@nexus/objectstore'
import { createMemoryBackend } from '@nexus/objectstore-memory-test'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { decompress } from 'zstd-napi'
import { exportSession, importSession, inspectSession } from '../src/index.ts'
import { fingerprint } from './session-fixture.ts'

const logger = silentLogger

/** A session that has ended, with everything in it that a tree can hold. */
async function endedSession(root: string, id = 's1', backend = createMemoryBackend()): Promise<string> {
  const session = await openSession({ id, root, store: backend, logger })
  await session.workspace.writeFile('files/report.txt', 'a report '.repeat(20_000))
  await session.workspace.writeFile('files/empty', '')
  await session.workspace.writeFile('files/näme with\nnewline', 'odd')
  await session.workspace.writeFile(`files/${'deep/'.repeat(30)}${'n'.repeat(200)}`, 'deep')
  await session.blobs.put(Buffer.from('a blob'), 'text/plain')
  session.storage().put('key', 'value')
  const { dir } = session
  mkdirSync(join(dir, 'files/closed'), { mode: 0o700 })
  writeFileSync(join(dir, 'files/closed/tool.sh'), '#!/bin/sh\n', { mode: 0o755 })
  utimesSync(join(dir, 'files/closed/tool.sh'), 1234567890.123456, 1234567890.123456)
  utimesSync(join(dir, 'files/report.txt'), new Date(-1000), new Date(-1000))
  symlinkSync('report.txt', join(dir, 'files/link'))
  symlinkSync('/nowhere/at/all', join(dir, 'files/dangling'))
  mkdirSync(join(dir, 'files/no entries'), { mode: 0o750 })
  chmodSync(join(dir, 'files/closed'), 0o500)
  await session.close()
  return dir
}

/** What must be equal after a round trip: by path, kind, mode, time to the microsecond, content. */
function content(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const at = join(entry.parentPath, entry.name)
      const path = at.slice(dir.length)
      const { mode, mtimeNs } = lstatSync(at, { bigint: true })
      if (entry.isSymbolicLink()) return `${path} -> ${readlinkSync(at)}`
      if (entry.isDirectory()) return `${path}/ ${mode.toString(8)}`
      return `${path} ${mode.toString(8)} ${mtimeNs / 1000n} ${createHash('sha256').update(readFileSync(at)).digest('hex')}`
    })
    .toSorted()
}

async function exported(root: string, dest: string, directory = false): Promise<void> {
  await using session = await inspectSession('s1', { sessionsRoot: join(root, 'sessions') })
  await exportSession(session, dest, { directory })
}

describe.each([
  ['one file', false],
  ['a directory', true],
])('an export as %s', (_name, directory) => {
  it('comes back equal in bytes, modes, times and links, and leaves the session as it was', async () => {
    const [root, other] = [tempDir(), tempDir()]
    const dir = await endedSession(root)
    const before = fingerprint(root)
    const archive = join(other, 'archive')
    await exported(root, archive, directory)
    expect(fingerprint(root)).toEqual(before)
    const sessionsRoot = join(other, 'sessions')
    const imported = await importSession(archive, { sessionsRoot })
    expect(imported).toMatchObject({ id: 's1', dir: join(sessionsRoot, 's1'), replaced: false })
    expect(content(imported.dir)).toEqual(content(dir))
    expect(readdirSync(sessionsRoot)).toEqual(['s1'])
    const resumed = await openSession({ id: 's1', root: other, logger })
    expect([resumed.resumed, resumed.storage().get('key')?.toString()]).toEqual([true, 'value'])
    await resumed.close()
  })

  it('of what a store holds comes back as it was committed', async () => {
    const [root, other] = [tempDir(), tempDir()]
    const backend = createMemoryBackend()
    const dir = await endedSession(root, 's1', backend)
    const store = new ObjectStore(backend, { name: 'memory' })
    await using session = await inspectSession('s1', { store })
    const archive = join(other, 'archive')
    await exportSession(session, archive, { directory })
    const { dir: imported } = await importSession(archive, { sessionsRoot: join(other, 'sessions') })
    // What is committed of a database is a copy of it.
    const files = (of: string): string[] => content(of).filter((line) => !line.includes('/store.db '))
    expect(files(imported)).toEqual(files(dir))
    const db = new Database(join(imported, 'plugins/main/store.db'))
    expect(db.prepare('SELECT key FROM kv').pluck().all()).toEqual(['key'])
    db.close()
  })
})

it('gives a session another id where it says its own, and leaves its events as they are', async () => {
  const [root, other] = [tempDir(), tempDir()]
  await endedSession(root)
  const archive = join(other, 'archive')
  await exported(root, archive)
  const { dir, exportedId } = await importSession(archive, { sessionsRoot: join(other, 'sessions'), id: 'copy' })
  expect(exportedId).toBe('s1')
  expect(JSON.parse(readFileSync(join(dir, 'metadata/session.json'), 'utf8'))).toMatchObject({ id: 'copy' })
  expect(JSON.parse(readFileSync(join(dir, 'journal/header.json'), 'utf8'))).toMatchObject({ session_id: 'copy' })
  await using session = await inspectSession('copy', { sessionsRoot: join(other, 'sessions') })
  for await (const event of await session.journal()) expect(event.session_id).toBe('s1')
  const resumed = await openSession({ id: 'copy', root: other, logger })
  await resumed.close()
})

it('is a tar that GNU tar lists and unpacks, and what it unpacked can be imported', async () => {
  const [root, other] = [tempDir(), tempDir()]
  const dir = await endedSession(root)
  await exported(root, join(other, 's1.tar.zst'))
  const plain = join(other, 's1.tar')
  writeFileSync(plain, decompress(readFileSync(join(other, 's1.tar.zst'))))
  const names = execFileSync('tar', ['-tf', plain], { encoding: 'utf8' }).trim().split('\n')
  expect([names[0], names.at(-1)]).toEqual(['manifest.json', 'trailer.json'])
  const unpacked = join(other, 'unpacked')
  mkdirSync(unpacked)
  execFileSync('tar', ['-xpf', plain, '-C', unpacked])
  expect(content(join(unpacked, 'session')).map(withoutMode)).toEqual(content(dir).map(withoutMode))
  const { dir: imported } = await importSession(unpacked, { sessionsRoot: join(other, 'sessions') })
  expect(content(imported)).toEqual(content(dir))
})

/** Directories above those that are named get the umask of whoever unpacks. */
function withoutMode(line: string): string {
  return line.replace(/\/ \d+$/, '/')
}

it('folds what the WAL of a killed session holds into the database, and leaves out what stays on the machine', async () => {
  const [root, other] = [tempDir(), tempDir()]
  const dir = await endedSession(root)
  // As a killed process leaves it.
  const writer = new Database(join(dir, 'plugins/main/store.db'))
  writer.exec('CREATE TABLE late (n); INSERT INTO late VALUES (7)')
  const files = ['store.db', 'store.db-wal'].map(
    (name) => [name, readFileSync(join(dir, 'plugins/main', name))] as const,
  )
  writer.close()
  for (const [name, bytes] of files) writeFileSync(join(dir, 'plugins/main', name), bytes)
  for (const name of ['session.record.jsonl', 'session.lock', 'files/.nexus-tmp-00000000-1-0000000000000']) {
    writeFileSync(join(dir, name), '{}')
  }
  const archive = join(other, 'archive')
  await exported(root, archive)
  const { dir: imported } = await importSession(archive, { sessionsRoot: join(other, 'sessions') })
  expect(readdirSync(join(imported, 'plugins/main'))).toEqual(['store.db'])
  expect(readdirSync(imported)).not.toContain('session.record.jsonl')
  expect(readdirSync(join(imported, 'files')).filter((name) => name.startsWith('.'))).toEqual([])
  const db = new Database(join(imported, 'plugins/main/store.db'))
  expect(db.prepare('SELECT n FROM late').pluck().get()).toBe(7)
  db.close()
})

describe('an import', () => {
  it('refuses an id that is there, and replaces it when told to, with what the machine remembered of it', async () => {
    const [root, other] = [tempDir(), tempDir()]
    const dir = await endedSession(root)
    const archive = join(tempDir(), 'archive')
    await exported(root, archive)
    await endedSession(other)
    writeFileSync(join(other, 'sessions/s1/files/closed.txt'), 'only here')
    const sessionsRoot = join(other, 'sessions')
    const before = fingerprint(sessionsRoot)
    await expect(importSession(archive, { sessionsRoot })).rejects.toMatchObject({ code: 'PRECONDITION' })
    expect(fingerprint(sessionsRoot)).toEqual(before)
    expect(readdirSync(join(sessionsRoot, '.machine'))).toContain('s1.jsonl')
    expect(await importSession(archive, { sessionsRoot, overwrite: true })).toMatchObject({ replaced: true })
    expect(content(join(sessionsRoot, 's1'))).toEqual(content(dir))
    expect(readdirSync(sessionsRoot).toSorted()).toEqual(['.machine', 's1'])
    expect(readdirSync(join(sessionsRoot, '.machine'))).not.toContain('s1.jsonl')
  })

  it('refuses a session that a live process holds, and an id that the store knows', async () => {
    const [root, other] = [tempDir(), tempDir()]
    const backend = createMemoryBackend()
    await endedSession(root, 's1', backend)
    const archive = join(tempDir(), 'archive')
    await exported(root, archive)
    const sessionsRoot = join(other, 'sessions')
    const store = new ObjectStore(backend, { name: 'memory' })
    await expect(importSession(archive, { sessionsRoot, store })).rejects.toMatchObject({ code: 'PRECONDITION' })
    const running = await openSession({ id: 's1', root: other, logger })
    await expect(importSession(archive, { sessionsRoot, overwrite: true })).rejects.toMatchObject({ code: 'LOCKED' })
    await running.workspace.writeFile('files/a', 'still here')
    await running.close()
    expect(readdirSync(sessionsRoot).filter((name) => name.startsWith('.h') || name.startsWith('.s'))).toEqual([])
  })
})

describe('an export', () => {
  it('refuses a session that runs, a name that is taken, and a tree that changes meanwhile, and leaves nothing', async () => {
    const [root, other] = [tempDir(), tempDir()]
    const running = await openSession({ id: 's1', root, logger })
    await running.workspace.writeFile('files/a', 'a')
    await using session = await inspectSession('s1', { sessionsRoot: join(root, 'sessions') })
    await expect(exportSession(session, join(other, 'x'))).rejects.toMatchObject({ code: 'LOCKED' })
    await running.close()
    writeFileSync(join(other, 'taken'), '')
    await expect(exportSession(session, join(other, 'taken'))).rejects.toMatchObject({ code: 'PRECONDITION' })
    const changes = [
      () => writeFileSync(join(running.dir, 'files/a'), 'b'),
      () => writeFileSync(join(running.dir, 'files/new'), 'new'),
    ]
    for (const change of changes) {
      for (const at of ['export:planned', 'progress']) {
        let changed = false
        const once = (): void => {
          if (!changed) change()
          changed = true
        }
        const exporting = exportSession(session, join(other, 'x'), {
          failpoint: (name) => (name === at ? once() : undefined),
          ...(at === 'progress' ? { onProgress: once } : {}),
        })
        await expect(exporting).rejects.toMatchObject({ code: 'PRECONDITION' })
        writeFileSync(join(running.dir, 'files/a'), 'a')
        rmSync(join(running.dir, 'files/new'), { force: true })
      }
    }
    expect(readdirSync(other)).toEqual(['taken'])
  })
})
