import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { tempManager } from '../../test/temp-dir.ts'
import type { Storage } from './storage.ts'

function open(options: Parameters<typeof tempManager>[0] = {}): Storage {
  return tempManager(options).manager.open('session', 'p')
}

function tables(storage: Storage): unknown[] {
  return storage.db.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").pluck().all()
}

describe('key-value calls', () => {
  it('store strings as UTF-8 and bytes as they are, and answer undefined for what is missing', () => {
    const storage = open()
    storage.put('s', 'grüße')
    storage.put('b', new Uint8Array([0, 255, 1]))
    storage.put('empty', '')
    expect(storage.get('s')).toEqual(Buffer.from('grüße'))
    expect(storage.get('b')).toEqual(Buffer.from([0, 255, 1]))
    expect(storage.get('empty')).toEqual(Buffer.alloc(0))
    expect(storage.get('missing')).toBeUndefined()
  })

  it('replace, delete and list by prefix, % and _ being ordinary characters', () => {
    const storage = open()
    for (const key of ['a%b', 'a_b', 'aXb', 'a', 'b', '']) storage.put(key, '1')
    storage.put('a', '2')
    expect(storage.get('a')?.toString()).toBe('2')
    expect(storage.list()).toEqual(['', 'a', 'a%b', 'aXb', 'a_b', 'b'])
    expect(storage.list('a%')).toEqual(['a%b'])
    expect(storage.list('a_')).toEqual(['a_b'])
    expect(storage.delete('a')).toBe(true)
    expect(storage.delete('a')).toBe(false)
    expect(storage.list('a')).toEqual(['a%b', 'aXb', 'a_b'])
  })

  it('make their table on the first of them, and not before', () => {
    const storage = open()
    storage.db.exec('CREATE TABLE mine (a)')
    expect(tables(storage)).toEqual(['mine'])
    storage.get('x')
    expect(tables(storage)).toEqual(['kv', 'mine'])
  })

  it('go on after the transaction that made their table was rolled back', () => {
    const storage = open()
    expect(() =>
      storage.tx(() => {
        storage.put('a', '1')
        throw new Error('no')
      }),
    ).toThrow('no')
    expect(storage.get('a')).toBeUndefined()
    storage.put('a', '2')
    expect(storage.get('a')?.toString()).toBe('2')
  })

  it('refuse keys that have no UTF-8 form, which would become one and the same', () => {
    const storage = open()
    for (const key of ['\ud83d', 'a\udc00', 1, undefined]) {
      expect(() => storage.put(key as string, 'x')).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
      expect(() => storage.get(key as string)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    }
    expect(() => storage.put('a', 1 as never)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })

  it('explain an open iterator of the same connection', () => {
    const storage = open()
    storage.put('a', '1')
    const rows = storage.db.prepare('SELECT * FROM kv').iterate()
    rows.next()
    expect(() => storage.put('b', '2')).toThrow(expect.objectContaining({ code: 'PRECONDITION' }))
    rows.return?.()
    storage.put('b', '2')
    expect(storage.list()).toEqual(['a', 'b'])
  })
})

describe('the raw connection', () => {
  it('runs in WAL with foreign keys on and the configured cache and timeout', () => {
    const { db } = open({ cacheSizeKb: 512, busyTimeoutMs: 1234 })
    const pragma = (name: string): unknown => db.pragma(name, { simple: true })
    expect(pragma('journal_mode')).toBe('wal')
    expect(pragma('synchronous')).toBe(1)
    expect(pragma('foreign_keys')).toBe(1)
    expect(pragma('cache_size')).toBe(-512)
    expect(pragma('busy_timeout')).toBe(1234)
  })

  it('has full-text search and joins', () => {
    const { db } = open()
    db.exec('CREATE VIRTUAL TABLE notes USING fts5(body); CREATE TABLE tags (note INTEGER, tag TEXT)')
    db.exec(
      "INSERT INTO notes VALUES ('the quick fox'), ('lazy dog'); INSERT INTO tags VALUES (1, 'animal'), (2, 'animal')",
    )
    const sql = "SELECT body FROM notes JOIN tags ON tags.note = notes.rowid WHERE notes MATCH 'fox' AND tag = 'animal'"
    expect(db.prepare(sql).pluck().all()).toEqual(['the quick fox'])
  })
})

describe('tx', () => {
  it('commits what it did, and returns what the function returned', () => {
    const storage = open()
    expect(storage.tx(() => (storage.put('a', '1'), storage.put('b', '2'), 42))).toBe(42)
    expect(storage.list()).toEqual(['a', 'b'])
    expect(storage.db.inTransaction).toBe(false)
  })

  it('rolls back on a throw and lets the very same error through', () => {
    const storage = open()
    storage.put('a', '1')
    const error = new Error('mine')
    const run = (): void =>
      storage.tx(() => {
        storage.put('a', '2')
        throw error
      })
    expect(run).toThrow(error)
    expect(storage.get('a')?.toString()).toBe('1')
    expect(storage.db.inTransaction).toBe(false)
  })

  it('takes the write lock before the function runs, and says who is in the way when it can not', () => {
    const storage = open({ busyTimeoutMs: 1 })
    storage.put('a', '1')
    const other = new Database(storage.path)
    other.exec('BEGIN IMMEDIATE')
    let ran = false
    expect(() => storage.tx(() => (ran = true))).toThrow(expect.objectContaining({ code: 'LOCKED', retryable: true }))
    expect(ran).toBe(false)
    other.exec('ROLLBACK')
    other.close()
    expect(storage.tx(() => (ran = true))).toBe(true)
  })

  it('is a savepoint inside a transaction that the plugin began itself', () => {
    const storage = open()
    storage.db.exec('BEGIN')
    storage.tx(() => storage.put('a', '1'))
    storage.db.exec('ROLLBACK')
    expect(storage.get('a')).toBeUndefined()
  })

  it('nests as savepoints: a caught inner throw undoes only the inner part', () => {
    const storage = open()
    storage.tx(() => {
      storage.put('outer', '1')
      try {
        storage.tx(() => {
          storage.put('inner', '1')
          storage.tx(() => storage.put('innermost', '1'))
          throw new Error('undo')
        })
      } catch {
        storage.put('caught', '1')
      }
    })
    expect(storage.list()).toEqual(['caught', 'outer'])
  })

  it('refuses an async function without running it', () => {
    const storage = open()
    let ran = false
    // oxlint-disable-next-line typescript/require-await -- the point is that it is async
    const run = async (): Promise<void> => {
      ran = true
    }
    expect(() => storage.tx(run)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    expect(ran).toBe(false)
  })

  it('refuses a promise, rolls back, and leaves no unhandled rejection behind', async () => {
    const storage = open()
    const unhandled: unknown[] = []
    const listener = (reason: unknown): void => void unhandled.push(reason)
    process.on('unhandledRejection', listener)
    const run = (): Promise<void> => {
      storage.put('a', '1')
      return Promise.reject(new Error('late'))
    }
    expect(() => storage.tx(run)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', listener)
    expect(unhandled).toEqual([])
    expect(storage.get('a')).toBeUndefined()
    expect(storage.db.inTransaction).toBe(false)
  })
})

describe('a closed handle', () => {
  it('says so on every call, when the plugin closed the connection', () => {
    const storage = open()
    storage.put('a', '1')
    const { db } = storage
    db.close()
    expect(storage.isOpen).toBe(false)
    const calls = [
      () => storage.get('a'),
      () => storage.put('a', '1'),
      () => storage.delete('a'),
      () => storage.list(),
      () => storage.tx(() => 1),
      () => storage.reader(),
      () => storage.db,
    ]
    for (const call of calls) expect(call).toThrow(expect.objectContaining({ code: 'CLOSED' }))
  })

  it('says so when the plugin closes it inside a transaction', () => {
    const storage = open()
    expect(() => storage.tx((db) => void db.close())).toThrow(expect.objectContaining({ code: 'CLOSED' }))
  })
})

describe('reader', () => {
  it('reads what is committed, beside an open write transaction, and can not write', () => {
    const storage = open()
    storage.put('a', '1')
    storage.db.exec("BEGIN IMMEDIATE; UPDATE kv SET value = x'32'")
    using reader = storage.reader()
    expect(reader.db.prepare('SELECT value FROM kv').pluck().get()).toEqual(Buffer.from('1'))
    expect(() => reader.db.exec('DELETE FROM kv')).toThrow(/readonly/)
    storage.db.exec('COMMIT')
    expect(reader.db.prepare('SELECT value FROM kv').pluck().get()).toEqual(Buffer.from('2'))
  })

  it('is bounded by pool_max_open, and lent again once given back', () => {
    const storage = open({ poolMaxOpen: 2, poolMaxIdle: 1 })
    const first = storage.reader()
    const second = storage.reader()
    expect(() => storage.reader()).toThrow(expect.objectContaining({ code: 'THROTTLED', retryable: true }))
    const { db } = first
    const { db: other } = second
    first.release()
    first.release()
    second.release()
    // One stays open idle, the other was closed.
    expect([db.open, other.open]).toEqual([true, false])
    expect(storage.reader().db).toBe(db)
    expect(() => first.db).toThrow(expect.objectContaining({ code: 'CLOSED' }))
  })

  it('is not lent again with a transaction or an iterator in it', () => {
    const storage = open({ poolMaxOpen: 1, poolMaxIdle: 1 })
    storage.put('a', '1')
    const first = storage.reader()
    first.db.exec('BEGIN; SELECT * FROM kv')
    const { db } = first
    first.release()
    const second = storage.reader()
    expect(second.db).toBe(db)
    expect(second.db.inTransaction).toBe(false)
    second.db.prepare('SELECT * FROM kv').iterate().next()
    second.release()
    expect(storage.reader().db).not.toBe(db)
  })
})
