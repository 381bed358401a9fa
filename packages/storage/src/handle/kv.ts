import type { Statement } from 'better-sqlite3'
import { NexusError } from '@nexus/errors'
import type { Connection } from '../open/connection.ts'
import { sqliteCode } from '../open/sqlite-error.ts'

const SURROGATE = /\p{Surrogate}/u
const LAST_CODE_POINT = 0x10ffff
const FIRST_SURROGATE = 0xd800
const LAST_SURROGATE = 0xdfff

// A lone surrogate has no UTF-8 form: SQLite would store U+FFFD, and two different keys would become one.
function checkKey(key: string, what: string): void {
  if (typeof key !== 'string' || SURROGATE.test(key)) {
    throw new NexusError('INVALID_ARGUMENT', `A storage ${what} is a string of well-formed Unicode`, {
      op: 'storage.kv',
    })
  }
}

/**
 * The smallest string above every string that starts with `prefix`, in the order of their UTF-8 bytes, which is the order
 * SQLite compares text in; undefined when there is none.
 */
export function prefixEnd(prefix: string): string | undefined {
  const points = Array.from(prefix, (character) => character.codePointAt(0) as number)
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    if (last === LAST_CODE_POINT) continue
    const next = last + 1 === FIRST_SURROGATE ? LAST_SURROGATE + 1 : last + 1
    return String.fromCodePoint(...points, next)
  }
  return undefined
}

/** Whether a statement failed because there is no `kv` table. */
export function isMissingTable(db: Connection, error: unknown): boolean {
  if (sqliteCode(error) !== 'SQLITE_ERROR') return false
  return db.prepare("SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'kv'").get() === undefined
}

/** The key-value calls of one connection. The `kv` table is made by the first of them, never by opening. */
export class KeyValueTable {
  readonly #db: Connection
  // Each when it is first used: a prepared statement is several KiB, and a process may have a thousand databases open.
  #get: Statement<[string], Buffer> | undefined
  #put: Statement<[string, Uint8Array]> | undefined
  #delete: Statement<[string]> | undefined
  #listFrom: Statement<[string], string> | undefined
  #listBetween: Statement<[string, string], string> | undefined

  constructor(db: Connection) {
    db.exec('CREATE TABLE IF NOT EXISTS kv (key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL)')
    this.#db = db
  }

  get(key: string): Buffer | undefined {
    checkKey(key, 'key')
    this.#get ??= this.#db.prepare<[string], Buffer>('SELECT value FROM kv WHERE key = ?').pluck()
    return this.#get.get(key)
  }

  put(key: string, value: string | Uint8Array): void {
    checkKey(key, 'key')
    if (typeof value !== 'string' && !(value instanceof Uint8Array)) {
      throw new NexusError('INVALID_ARGUMENT', 'A storage value is a string or a Uint8Array', {
        op: 'storage.put',
        key,
      })
    }
    this.#put ??= this.#db.prepare(
      'INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
    )
    this.#put.run(key, typeof value === 'string' ? Buffer.from(value) : value)
  }

  delete(key: string): boolean {
    checkKey(key, 'key')
    this.#delete ??= this.#db.prepare('DELETE FROM kv WHERE key = ?')
    return this.#delete.run(key).changes > 0
  }

  list(prefix: string): string[] {
    checkKey(prefix, 'prefix')
    const end = prefixEnd(prefix)
    if (end === undefined) {
      this.#listFrom ??= this.#db.prepare<[string], string>('SELECT key FROM kv WHERE key >= ? ORDER BY key').pluck()
      return this.#listFrom.all(prefix)
    }
    this.#listBetween ??= this.#db
      .prepare<[string, string], string>('SELECT key FROM kv WHERE key >= ? AND key < ? ORDER BY key')
      .pluck()
    return this.#listBetween.all(prefix, end)
  }
}
