import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { NexusError } from '@nexus/errors'
import { silentLogger } from '@nexus/host'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { column, fill, inspect, integrityOf } from '../../test/sample-database.ts'
import { tempManager } from '../../test/temp-dir.ts'
import type { Connection } from '../open/connection.ts'
import type { StorageManager } from '../storage-manager.ts'

// Above and below what is done on the main thread.
const SIZES_KB = [1, 3000]

async function copyOf(manager: StorageManager, dir: string, id = 'p'): Promise<string> {
  const copies = await manager.snapshot('session', dir)
  return copies.find(({ pluginId }) => pluginId === id)?.snapshotPath ?? ''
}

function pragma(path: string, name: string): unknown {
  return inspect(path, (db) => db.pragma(name, { simple: true }))
}

describe.each(SIZES_KB)('a snapshot of %i KiB', (sizeKb) => {
  it('is one plain file per database with everything committed, and says where and how large', async () => {
    const { manager, dir } = tempManager()
    const one = manager.open('session', 'nexus.agent.sub/researcher')
    fill(one.db, sizeKb)
    one.put('a', '1')
    manager.open('session', 'other').put('b', '2')
    const copies = await manager.snapshot('session', join(dir, 'copy'))
    const snapshotPath = join(dir, 'copy/nexus.agent.sub/researcher/store.db')
    expect(copies).toMatchObject([
      {
        pluginId: 'nexus.agent.sub/researcher',
        livePath: one.path,
        snapshotPath,
        sizeBytes: readFileSync(snapshotPath).length,
        checkpoint: { busy: false },
      },
      { pluginId: 'other' },
    ])
    expect(readdirSync(dirname(snapshotPath))).toEqual(['store.db'])
    expect(integrityOf(snapshotPath)).toBe('ok')
    expect(column(snapshotPath, 'SELECT count(*) FROM big')).toEqual([sizeKb])
    expect(column(snapshotPath, 'SELECT key FROM kv')).toEqual(['a'])
    // The live one goes on.
    one.put('a', '2')
    expect(one.get('a')?.toString()).toBe('2')
  })

  it('empties the WAL on the way', async () => {
    const { manager, dir } = tempManager()
    const { db, path } = manager.open('session', 'p')
    db.pragma('wal_autocheckpoint = 0')
    fill(db, sizeKb)
    const [copy] = await manager.snapshot('session', join(dir, 'copy'))
    expect(copy?.checkpoint.busy).toBe(false)
    expect(copy?.checkpoint.walFrames).toBeGreaterThan(0)
    expect(copy?.checkpoint.checkpointedFrames).toBe(copy?.checkpoint.walFrames)
    expect(readFileSync(`${path}-wal`).length).toBe(0)
  })

  it('holds what is committed, and only that, while the plugin has an iterator and a transaction open', async () => {
    const { manager, dir } = tempManager()
    const storage = manager.open('session', 'p')
    fill(storage.db, sizeKb)
    const rows = storage.db.prepare('SELECT * FROM big').iterate()
    rows.next()
    const reader = storage.reader()
    const readerRows = reader.db.prepare('SELECT * FROM big').iterate()
    readerRows.next()
    const withIterator = await copyOf(manager, join(dir, 'iterator'))
    rows.return?.()
    storage.db.exec("BEGIN IMMEDIATE; INSERT INTO big (value) VALUES ('uncommitted')")
    const withTransaction = await copyOf(manager, join(dir, 'transaction'))
    storage.db.exec('COMMIT')
    readerRows.return?.()
    for (const path of [withIterator, withTransaction]) {
      expect(integrityOf(path)).toBe('ok')
      expect(column(path, 'SELECT count(*) FROM big')).toEqual([sizeKb])
    }
    expect(column(storage.path, 'SELECT count(*) FROM big')).toEqual([sizeKb + 1])
  })

  it.each(['a function in an index', 'a function in a generated column', 'a collation'])(
    'includes a database that needs %s which only the plugin has',
    async (need) => {
      const { manager, dir } = tempManager()
      const { db, path } = manager.open('session', 'p')
      fill(db, sizeKb)
      db.function('shout', { deterministic: true }, (text) => String(text).toUpperCase())
      db.exec('CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT COLLATE NOCASE)')
      if (need === 'a function in an index') db.exec('CREATE INDEX loud ON words (shout(word))')
      if (need === 'a function in a generated column') {
        db.exec('CREATE TABLE loud (word TEXT, loud TEXT AS (shout(word)) STORED)')
        db.exec("INSERT INTO loud (word) VALUES ('x')")
      }
      db.exec("INSERT INTO words (word) VALUES ('one'), ('two')")
      if (need === 'a collation') renameCollation(db)
      manager.open('session', 'plain').put('a', '1')
      db.exec('BEGIN IMMEDIATE; INSERT INTO big (value) VALUES (0)')
      const copies = await manager.snapshot('session', join(dir, 'copy'))
      db.exec('ROLLBACK')
      expect(copies.map(({ pluginId }) => pluginId)).toEqual(['p', 'plain'])
      const copy = copies[0]?.snapshotPath as string
      expect(readdirSync(dirname(copy))).toEqual(['store.db'])
      inspect(copy, (copied) => {
        expect(copied.pragma('journal_mode', { simple: true })).toBe('delete')
        copied.function('shout', { deterministic: true }, (text) => String(text).toUpperCase())
        const check = (): unknown => copied.pragma('integrity_check', { simple: true })
        // Without the collation even the check refuses to run.
        expect(need === 'a collation' ? 'ok' : check()).toBe('ok')
        expect(copied.prepare('SELECT id FROM words ORDER BY id').pluck().all()).toEqual([1, 2])
        expect(copied.prepare('SELECT count(*) FROM big').pluck().get()).toBe(sizeKb)
      })
      expect(column(path, 'SELECT count(*) FROM big')).toEqual([sizeKb])
    },
  )

  it('keeps user_version, application_id, page size and auto-vacuum, and is WAL again when opened here', async () => {
    const { manager, dir } = tempManager()
    const first = manager.open('session', 'p')
    first.db.exec('PRAGMA journal_mode = DELETE; PRAGMA page_size = 8192; PRAGMA auto_vacuum = INCREMENTAL; VACUUM')
    first.db.exec('PRAGMA journal_mode = WAL; PRAGMA user_version = 7; PRAGMA application_id = 1313756243')
    fill(first.db, sizeKb)
    const copy = await copyOf(manager, join(dir, 'copy'))
    const kept = ['user_version', 'application_id', 'page_size', 'auto_vacuum', 'encoding']
    expect(kept.map((name) => pragma(copy, name))).toEqual([7, 1313756243, 8192, 2, 'UTF-8'])
    expect(pragma(copy, 'journal_mode')).toBe('delete')

    const next = tempManager()
    const path = join(next.dir, 'session/plugins/p/store.db')
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, readFileSync(copy))
    const { db } = next.manager.open('session', 'p')
    expect(db.pragma('journal_mode', { simple: true })).toBe('wal')
    expect(kept.map((name) => db.pragma(name, { simple: true }))).toEqual([7, 1313756243, 8192, 2, 'UTF-8'])
  })

  it('keeps implicit rowids, external-content full-text tables and WITHOUT ROWID tables', async () => {
    const { manager, dir } = tempManager()
    const { db } = manager.open('session', 'p')
    fill(db, sizeKb)
    db.exec(`CREATE TABLE notes (body TEXT);
      CREATE VIRTUAL TABLE search USING fts5(body, content='notes');
      CREATE TABLE pairs (a TEXT, b TEXT, PRIMARY KEY (b, a)) WITHOUT ROWID`)
    const words = ['zero', 'one', 'two', 'three', 'four', 'five']
    for (const word of words) {
      const { lastInsertRowid } = db.prepare('INSERT INTO notes VALUES (?)').run(`note ${word}`)
      db.prepare('INSERT INTO search (rowid, body) VALUES (?, ?)').run(lastInsertRowid, `note ${word}`)
      db.prepare('INSERT INTO pairs VALUES (?, ?)').run(word, 'x')
    }
    for (const rowid of [3, 4]) {
      db.prepare("INSERT INTO search (search, rowid, body) VALUES ('delete', ?, ?)").run(
        rowid,
        `note ${words[rowid - 1]}`,
      )
      db.prepare('DELETE FROM notes WHERE rowid = ?').run(rowid)
    }
    const copy = await copyOf(manager, join(dir, 'copy'))
    const queries = [
      'SELECT rowid, body FROM notes',
      'SELECT a, b FROM pairs',
      ...words.map((word) => `SELECT rowid, body FROM search WHERE search MATCH '${word}'`),
    ]
    const answers = (from: Connection): unknown[] => queries.map((sql) => from.prepare(sql).raw().all())
    expect(inspect(copy, answers)).toEqual(answers(db))
    expect(inspect(copy, answers)[7]).toEqual([[6, 'note five']])
    expect(integrityOf(copy)).toBe('ok')
  })

  it('is refused onto a file that exists, which stays as it is', async () => {
    const { manager, dir } = tempManager()
    fill(manager.open('session', 'p').db, sizeKb)
    manager.open('session', 'q').put('a', '1')
    const taken = join(dir, 'copy/p/store.db')
    mkdirSync(dirname(taken), { recursive: true })
    for (const name of [taken, `${taken}-journal`, `${taken}-wal`]) {
      writeFileSync(name, 'not yours')
      await expect(manager.snapshot('session', join(dir, 'copy'))).rejects.toMatchObject({
        code: 'PRECONDITION',
        key: name,
      })
      expect(readFileSync(name, 'utf8')).toBe('not yours')
      // What was copied beside it went again.
      expect(existsSync(join(dir, 'copy/q/store.db'))).toBe(false)
      rmSync(name)
    }
    expect(await manager.snapshot('session', join(dir, 'copy'))).toHaveLength(2)
    const live = join(dir, 'session/plugins')
    await expect(manager.snapshot('session', live)).rejects.toMatchObject({ code: 'PRECONDITION' })
    expect(integrityOf(join(live, 'p/store.db'))).toBe('ok')
  })

  it('waits for a lock off the main thread, and holds what was committed in the meantime', async () => {
    const { manager, dir } = tempManager()
    const { db } = manager.open('session', 'p')
    fill(db, sizeKb)
    db.exec('PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE; INSERT INTO big (value) VALUES (0)')
    const pending = copyOf(manager, join(dir, 'copy'))
    // The worker runs into the lock while this thread is free to give it up.
    await new Promise((resolve) => setTimeout(resolve, 5))
    db.exec('COMMIT')
    expect(column(await pending, 'SELECT count(*) FROM big')).toEqual([sizeKb + 1])
  })

  it('names plugin and file when a lock is never given up, and leaves no copy', async () => {
    const { manager, dir } = tempManager({ busyTimeoutMs: 1 })
    const { db, path } = manager.open('session', 'p')
    fill(db, sizeKb)
    db.exec('PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE')
    const message = expect.stringMatching(new RegExp(`plugin p at ${path}.*locked`)) as string
    await expect(manager.snapshot('session', join(dir, 'copy'))).rejects.toMatchObject({
      code: 'LOCKED',
      retryable: true,
      key: path,
      message,
    })
    expect(readdirSync(join(dir, 'copy/p'))).toEqual([])
    db.exec('COMMIT')
    expect(await manager.snapshot('session', join(dir, 'copy'))).toHaveLength(1)
  })

  it('ends with the reason of its signal, before or during, and leaves no copy', async () => {
    const { manager, dir } = tempManager()
    fill(manager.open('session', 'p').db, sizeKb)
    const early = AbortSignal.abort(new Error('early'))
    await expect(manager.snapshot('session', join(dir, 'early'), { signal: early })).rejects.toThrow('early')
    expect(existsSync(join(dir, 'early'))).toBe(false)
    const controller = new AbortController()
    const late = manager.snapshot('session', join(dir, 'late'), { signal: controller.signal })
    controller.abort(new Error('late'))
    await expect(late).rejects.toThrow('late')
    await manager.dispose()
    expect(existsSync(join(dir, 'late/p/store.db'))).toBe(false)
  })

  it('reports a damaged database instead of copying it', async () => {
    const { manager, dir } = tempManager()
    const path = join(dir, 'session/plugins/p/store.db')
    fill(manager.open('session', 'p').db, Math.max(sizeKb, 100))
    await manager.closeAll()
    const bytes = readFileSync(path)
    // Past the first page, which holds the schema, so that the damage shows only on the way.
    writeFileSync(path, Buffer.concat([bytes.subarray(0, 4096), Buffer.alloc(bytes.length - 4096, 0x5a)]))
    await expect(manager.snapshot('session', join(dir, 'copy'))).rejects.toMatchObject({ code: 'CORRUPT', key: path })
    expect(existsSync(join(dir, 'copy/p/store.db'))).toBe(false)
  })
})

describe.each(['p', 'nexus.tool/shell', 'x/y/z'])(
  'the content of %s is lost, and left out with a warning, when',
  (id) => {
    const emptyAgain = (path: string): void => {
      for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true })
      truncateSync(path, 0)
    }
    const move = (path: string): string => {
      renameSync(path, `${path}-away`)
      return `${path}-away`
    }
    const faults: Record<string, (path: string) => unknown> = {
      'its file is deleted': (path) => rmSync(path),
      'its directory is deleted': (path) => rmSync(dirname(path), { recursive: true }),
      'its file is emptied': emptyAgain,
      'an empty file is put in its place': (path) => writeFileSync(move(path).replace(/-away$/, ''), ''),
      'another database is put in its place': (path) =>
        new Database(move(path).replace(/-away$/, '')).exec('CREATE TABLE t (a)').close(),
      'a directory is put in its place': (path) => mkdirSync(move(path).replace(/-away$/, '')),
      'a link to itself is put in its place': (path) => symlinkSync(move(path), path),
      'its directory becomes a link': (path) => symlinkSync(move(dirname(path)), dirname(path)),
      'its directory becomes a file': (path) => writeFileSync(move(dirname(path)).replace(/-away$/, ''), ''),
    }

    it.each(Object.keys(faults))('%s', async (name) => {
      const warnings: string[] = []
      const logger = { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) }
      const { manager, dir } = tempManager({ logger })
      const { path } = manager.open('session', id)
      manager.open('session', id).put('a', 'precious')
      manager.open('session', 'other').put('b', '2')
      expect(await manager.snapshot('session', join(dir, 'before'))).toHaveLength(2)
      faults[name]?.(path)
      for (const round of ['running', 'closed']) {
        warnings.length = 0
        expect(await manager.snapshot('session', join(dir, round))).toMatchObject([{ pluginId: 'other' }])
        expect(warnings).toEqual([expect.stringContaining('the content of an open database is lost')])
        expect(await manager.checkpoint('session')).toMatchObject([{ pluginId: 'other' }])
        await manager.closeAll()
      }
    })
  },
)

it('a database that its plugin closed and replaced is copied as it is now', async () => {
  const { manager, dir } = tempManager()
  const storage = manager.open('session', 'p')
  storage.db.close()
  rmSync(storage.path)
  new Database(storage.path).exec('CREATE TABLE t (a); INSERT INTO t VALUES (1)').close()
  const copy = await copyOf(manager, join(dir, 'copy'))
  expect(column(copy, 'SELECT a FROM t')).toEqual([1])
})

it('a database is never read through a link that takes its directory from time to time', async () => {
  const { manager, dir } = tempManager()
  const victim = tempManager()
  victim.manager.open('session', 'p').put('password', 'VICTIMSECRET')
  const mine = manager.open('session', 'p')
  mine.put('k', 'mine')
  const swapper = new Worker(
    `const { renameSync, symlinkSync, unlinkSync } = require('node:fs')
     const [dir, target] = require('node:worker_threads').workerData
     for (;;) { renameSync(dir, dir + '-away'); symlinkSync(target, dir); unlinkSync(dir); renameSync(dir + '-away', dir) }`,
    { eval: true, workerData: [dirname(mine.path), dirname(victim.manager.paths('session')[0] as string)] },
  )
  const codes = new Set<string>()
  for (let round = 0; round < 150; round++) {
    const destDir = join(dir, `copy${round}`)
    const copies = await manager.snapshot('session', destDir).catch(({ code }: NexusError) => {
      codes.add(code)
      return []
    })
    for (const { snapshotPath } of copies) {
      expect(readFileSync(snapshotPath).includes('VICTIMSECRET')).toBe(false)
      expect(column(snapshotPath, 'SELECT key FROM kv')).toEqual(['k'])
    }
  }
  expect(['PRECONDITION', 'NOT_FOUND', 'LOCAL_IO', 'LOCKED']).toEqual(expect.arrayContaining([...codes]))
  await swapper.terminate()
  expect(victim.manager.open('session', 'p').get('password')?.toString()).toBe('VICTIMSECRET')
  expect(existsSync(`${victim.manager.open('session', 'p').path}-wal`)).toBe(true)
})

it('a database whose directory was replaced is not closed over the files that lie there now', async () => {
  const { manager } = tempManager()
  const victim = tempManager()
  const theirs = victim.manager.open('session', 'p')
  theirs.put('a', '1')
  const directory = dirname(manager.open('session', 'p').path)
  renameSync(directory, `${directory}-away`)
  symlinkSync(dirname(theirs.path), directory)
  await manager.dispose()
  expect(existsSync(`${theirs.path}-wal`)).toBe(true)
  theirs.put('b', '2')
  expect(column(theirs.path, 'SELECT key FROM kv')).toEqual(['a', 'b'])
})

it('a plugin that writes during a large snapshot finds every row, and the copy is one state of it', async () => {
  const { manager, dir } = tempManager()
  const storage = manager.open('session', 'p')
  fill(storage.db, 3000)
  storage.db.exec('CREATE TABLE left (n INTEGER); CREATE TABLE right (n INTEGER)')
  const pending = copyOf(manager, join(dir, 'copy'))
  let written = 0
  const progress = { done: false }
  void pending.finally(() => (progress.done = true))
  while (!progress.done) {
    storage.tx((db) => {
      db.prepare('INSERT INTO left VALUES (?)').run(written)
      db.prepare('INSERT INTO right VALUES (?)').run(written)
    })
    written++
    await new Promise((resolve) => setImmediate(resolve))
  }
  const copy = await pending
  expect(integrityOf(copy)).toBe('ok')
  const left = column(copy, 'SELECT n FROM left ORDER BY n')
  expect(column(copy, 'SELECT n FROM right ORDER BY n')).toEqual(left)
  expect(left).toEqual(left.map((_, n) => n))
  expect(column(storage.path, 'SELECT count(*) FROM left')).toEqual([written])
})

/** Makes a schema that names a collation which no connection here has, as an extension of the plugin's would. */
function renameCollation(db: Connection): void {
  db.exec('CREATE INDEX by_word ON words (word)')
  db.unsafeMode(true)
  db.pragma('writable_schema = ON')
  db.exec("UPDATE sqlite_master SET sql = replace(sql, 'NOCASE', 'PLUGIN_ORDER') WHERE name = 'words'")
  db.pragma('writable_schema = RESET')
  db.unsafeMode(false)
  expect(() => new Database(db.name).exec('REINDEX')).toThrow(/no such collation/)
}
