import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { column, fill, inspect, integrityOf } from '../../test/sample-database.ts'
import { tempManager } from '../../test/temp-dir.ts'
import type { Connection } from '../open/connection.ts'
import type { StorageManager } from '../storage-manager.ts'

const SIZES_KB = [1, 3000]

function setUp(): { manager: StorageManager; dir: string; live: string; dest: string } {
  const { manager, dir } = tempManager()
  mkdirSync(join(dir, 'files'))
  return { manager, dir, live: join(dir, 'files/app.db'), dest: join(dir, 'copy/app.db') }
}

function open(path: string): Connection {
  const db = new Database(path)
  onTestFinished(() => void db.close())
  return db
}

// Copies of the files of a connection that is in the middle of something: what a killed process leaves.
function crashInto(from: string, to: string): void {
  for (const suffix of ['', '-wal', '-journal']) if (existsSync(from + suffix)) copyFileSync(from + suffix, to + suffix)
}

function filesOf(dir: string): Record<string, string> {
  return Object.fromEntries(readdirSync(dir).map((name) => [name, readFileSync(join(dir, name), 'latin1')]))
}

describe.each(SIZES_KB)('the copy of a foreign database of %i KiB', (sizeKb) => {
  it('holds what is committed in its WAL, which is neither checkpointed nor removed', async () => {
    const { manager, dir, live, dest } = setUp()
    const db = open(join(dir, 'owner.db'))
    db.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0')
    fill(db, sizeKb)
    crashInto(db.name, live)
    const before = filesOf(dirname(live))
    const { sizeBytes } = await manager.snapshotForeign(live, dest)
    const { 'app.db-shm': _shm, ...after } = filesOf(dirname(live))
    expect(after).toEqual(before)
    expect(readdirSync(dirname(dest))).toEqual(['app.db'])
    expect(sizeBytes).toBe(lstatSync(dest).size)
    expect(integrityOf(dest)).toBe('ok')
    expect(column(dest, 'SELECT count(*) FROM big')).toEqual([sizeKb])
    // The owner's next start finds all of it, too.
    expect(column(live, 'SELECT count(*) FROM big')).toEqual([sizeKb])
  })

  it('undoes the half transaction that a dead process left in a hot journal', async () => {
    const { manager, dir, live, dest } = setUp()
    const db = open(join(dir, 'owner.db'))
    db.exec('PRAGMA journal_mode = DELETE')
    fill(db, sizeKb)
    // A cache of one page makes the transaction reach the file before it is over.
    db.exec(`PRAGMA synchronous = ${sizeKb > 1 ? 'OFF' : 'FULL'}; PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN`)
    db.exec('UPDATE big SET value = zeroblob(1000); INSERT INTO big (value) SELECT zeroblob(1000) FROM big')
    crashInto(db.name, live)
    expect(existsSync(`${live}-journal`)).toBe(true)
    await manager.snapshotForeign(live, dest)
    expect(integrityOf(dest)).toBe('ok')
    expect(column(dest, 'SELECT count(*) FROM big')).toEqual([sizeKb])
    expect(column(dest, 'SELECT DISTINCT value FROM big')).toEqual([Buffer.alloc(1000, 7)])
    expect(readdirSync(dirname(dest))).toEqual(['app.db'])
  })

  it.each(['WAL', 'DELETE', 'PERSIST', 'TRUNCATE'])(
    'is one state of a database in journal mode %s that this process writes to meanwhile',
    async (mode) => {
      const { manager, live, dest } = setUp()
      const db = open(live)
      db.exec(`PRAGMA journal_mode = ${mode}`)
      fill(db, sizeKb)
      db.exec(
        'CREATE TABLE left (n INTEGER); CREATE TABLE right (n INTEGER); INSERT INTO left VALUES (0); INSERT INTO right VALUES (0)',
      )
      for (let round = 0; round < 5; round++) {
        const pending = manager.snapshotForeign(live, `${dest}${round}`)
        db.transaction(() => db.exec('UPDATE left SET n = n + 1; UPDATE right SET n = n + 1'))()
        await pending
        expect(integrityOf(`${dest}${round}`)).toBe('ok')
        expect(column(`${dest}${round}`, 'SELECT right.n - left.n FROM left, right')).toEqual([0])
      }
      expect(column(live, 'SELECT n FROM left')).toEqual([5])
    },
  )

  it('includes what is committed beside an open transaction, and keeps the journal mode', async () => {
    const { manager, live, dest } = setUp()
    const db = open(live)
    db.exec('PRAGMA journal_mode = WAL; PRAGMA user_version = 3; PRAGMA application_id = 9')
    fill(db, sizeKb)
    db.exec('BEGIN IMMEDIATE; DELETE FROM big')
    await manager.snapshotForeign(live, dest)
    db.exec('ROLLBACK')
    const pragmas = ['user_version', 'application_id', 'journal_mode']
    expect(inspect(dest, (copy) => pragmas.map((name) => copy.pragma(name, { simple: true })))).toEqual([3, 9, 'wal'])
    expect(column(dest, 'SELECT count(*) FROM big')).toEqual([sizeKb])
  })

  it('runs nothing of the schema: functions and modules that are not there do not matter', async () => {
    const { manager, live, dest } = setUp()
    const db = open(live)
    let called = 0
    db.function('evil', { deterministic: true }, (a) => (called++, a))
    fill(db, sizeKb)
    db.exec('CREATE TABLE t (a, b AS (evil(a)) STORED); CREATE INDEX i ON t (evil(a)); INSERT INTO t (a) VALUES (1)')
    db.exec('CREATE VIEW v AS SELECT evil(a) FROM t')
    db.unsafeMode(true).exec(`PRAGMA writable_schema = ON;
      INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 0, 'CREATE VIRTUAL TABLE x USING no_such_module(a)');
      UPDATE sqlite_master SET sql = 'CREATE TABEL nonsense' WHERE name = 'v'`)
    const before = called
    await manager.snapshotForeign(live, dest)
    expect(called).toBe(before)
    // All but the change counters in the header of the first page.
    expect(readFileSync(dest).subarray(100).equals(readFileSync(live).subarray(100))).toBe(true)
  })

  it('is refused onto a file that exists', async () => {
    const { manager, live, dest } = setUp()
    fill(open(live), sizeKb)
    mkdirSync(dirname(dest))
    writeFileSync(dest, 'not yours')
    await expect(manager.snapshotForeign(live, dest)).rejects.toMatchObject({ code: 'PRECONDITION', key: dest })
    expect(readFileSync(dest, 'utf8')).toBe('not yours')
    await expect(manager.snapshotForeign(live, live)).rejects.toMatchObject({ code: 'PRECONDITION' })
  })

  it('ends with the reason of its signal', async () => {
    const { manager, live, dest } = setUp()
    fill(open(live), sizeKb)
    const controller = new AbortController()
    const pending = manager.snapshotForeign(live, dest, { signal: controller.signal })
    controller.abort(new Error('enough'))
    await expect(pending).rejects.toThrow('enough')
    await manager.dispose()
    expect(existsSync(dest)).toBe(false)
  })
})

it('a name that ends in white space is copied from that very file, not from its trimmed twin', async () => {
  const { manager, dir, live, dest } = setUp()
  const db = open(live)
  db.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)')
  crashInto(live, `${live} `)
  db.exec('UPDATE t SET a = 2')
  await manager.snapshotForeign(`${live} `, dest)
  expect(column(dest, 'SELECT a FROM t')).toEqual([1])
  expect(readdirSync(join(dir, 'copy'))).toEqual(['app.db'])
  await expect(manager.snapshotForeign(live, `${dest} `)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
})

describe('a file that is not of SQLite is left alone and reported', () => {
  const text = 'some text of the agent, by chance with a neighbour that is named like a sidecar\n'.repeat(60)
  const journalMagic = Buffer.from('d9d505f920a163d7', 'hex')

  it.each([
    ['text beside a -shm of the right size', { app: text, 'app-shm': '\0'.repeat(32_768) }],
    ['text beside an empty -wal', { app: text, 'app-wal': '' }],
    ['text beside a -wal of text', { app: text, 'app-wal': 'notes' }],
    ['text beside a -journal of text', { app: text, 'app-journal': 'notes' }],
    ['text beside a -shm of text', { app: text, 'app-shm': 'notes' }],
    ['text beside all three', { app: text, 'app-wal': 'a', 'app-journal': 'b', 'app-shm': 'c' }],
    ['nothing beside a -wal of text', { app: '', 'app-wal': 'notes' }],
    ['a text shorter than a page', { app: text.slice(0, 3000), 'app-wal': '' }],
    ['a single byte', { app: 'x', 'app-journal': '' }],
  ])('%s', async (_, files: Record<string, string>) => {
    const { manager, dir, dest } = setUp()
    for (const [name, content] of Object.entries(files)) writeFileSync(join(dir, 'files', name), content, 'latin1')
    await expect(manager.snapshotForeign(join(dir, 'files/app'), dest)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      path: join(dir, 'files/app'),
    })
    expect(filesOf(join(dir, 'files'))).toMatchObject(files)
    expect(existsSync(dest)).toBe(false)
  })

  it('and a real database keeps a neighbour that only has the name of a sidecar', async () => {
    const { manager, live, dest } = setUp()
    open(live).exec('CREATE TABLE t (a)')
    for (const suffix of ['-journal', '-wal', '-shm']) {
      writeFileSync(live + suffix, 'diary')
      await expect(manager.snapshotForeign(live, dest)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
      expect(readFileSync(live + suffix, 'utf8')).toBe('diary')
      writeFileSync(live + suffix, '')
    }
  })

  it('a file of no bytes is copied as such, and its neighbours stay', async () => {
    const { manager, live, dest } = setUp()
    writeFileSync(live, '')
    writeFileSync(`${live}-journal`, Buffer.concat([journalMagic, Buffer.alloc(504)]))
    expect(await manager.snapshotForeign(live, dest)).toMatchObject({ sizeBytes: 0 })
    expect(readFileSync(dest)).toEqual(Buffer.alloc(0))
    expect(existsSync(`${live}-journal`)).toBe(true)
  })

  it('links and directories are not followed', async () => {
    const { manager, dir, live, dest } = setUp()
    open(live).exec('CREATE TABLE t (a)')
    symlinkSync(live, join(dir, 'files/link.db'))
    for (const path of [join(dir, 'files/link.db'), join(dir, 'files')]) {
      await expect(manager.snapshotForeign(path, dest)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    }
    await expect(manager.snapshotForeign(join(dir, 'files/none.db'), dest)).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })
})
