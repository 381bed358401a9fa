import { isNexusError, NexusError } from '@nexus/errors'
import type { Connection } from '../open/connection.ts'
import { isMissingTable, KeyValueTable } from './kv.ts'
import { closeQuietly, ReaderPool, type ReaderPoolSettings, type StorageReader } from './reader-pool.ts'
import { releasePages } from '../open/page-cache.ts'
import { keepOpen, type Place } from '../open/place.ts'
import type { StorageScope } from '../open/scope.ts'
import { fromSqliteError } from '../open/sqlite-error.ts'

const AsyncFunction = (async () => undefined).constructor

type Transaction = ReturnType<Connection['transaction']>

/** Whose handle it is. */
export interface StorageIdentity {
  readonly scope: StorageScope
  readonly pluginId: string
  readonly place: Place
}

/**
 * One plugin's database: key-value calls, the raw connection, transactions, read-only connections.
 *
 * Every call is synchronous and throws a NexusError: `CLOSED` after the handle or its connection was closed,
 * `PRECONDITION` while an iterator of the same connection is open, `LOCKED` when another process held the write lock for
 * longer than the busy timeout, `LOCAL_IO` and `CORRUPT` for the disk.
 *
 * @see docs/concepts/durability.md
 */
export class Storage {
  readonly scope: StorageScope
  readonly pluginId: string
  /** The live path. Never open it outside SQLite while it is connected: that drops this process's locks on it. */
  readonly path: string
  readonly #db: Connection
  readonly #readers: ReaderPool
  #transaction: Transaction | undefined
  #kv: KeyValueTable | undefined
  #closed = false
  #fenced: Error | undefined

  constructor(identity: StorageIdentity, db: Connection, settings: ReaderPoolSettings) {
    this.scope = identity.scope
    this.pluginId = identity.pluginId
    this.path = identity.place.path
    this.#db = db
    this.#readers = new ReaderPool(identity.place, settings)
  }

  /** Whether calls can succeed: neither the manager nor the plugin has closed the connection. */
  get isOpen(): boolean {
    return !this.#closed && this.#db.open
  }

  /** Whether the plugin closed the connection itself. */
  get wasClosedByPlugin(): boolean {
    return !this.#closed && !this.#db.open
  }

  /** The raw better-sqlite3 connection: joins, FTS5, anything. Throws `CLOSED` when it was closed. */
  get db(): Connection {
    if (!this.isOpen) throw this.#closedError('storage.db')
    return this.#db
  }

  /** Nothing is written any more: see `StorageManager.fence`. */
  fence(reason: Error): void {
    this.#fenced = reason
    try {
      if (this.isOpen) this.#db.pragma('query_only = ON')
    } catch {
      // An open iterator keeps SQLite from taking it; the calls of this handle are refused all the same.
    }
  }

  /** The value of `key`, or undefined. */
  get(key: string): Buffer | undefined {
    return this.#guard('storage.get', () => this.#withTable((kv) => kv.get(key)))
  }

  /** Stores a value, a string as UTF-8, in place of any earlier one. */
  put(key: string, value: string | Uint8Array): void {
    this.#writing()
    this.#guard('storage.put', () => this.#withTable((kv) => kv.put(key, value)))
  }

  /** Removes a key; false when there was none. */
  delete(key: string): boolean {
    this.#writing()
    return this.#guard('storage.delete', () => this.#withTable((kv) => kv.delete(key)))
  }

  /** Every key that starts with `prefix`, in the order of their UTF-8 bytes. */
  list(prefix = ''): string[] {
    return this.#guard('storage.list', () => this.#withTable((kv) => kv.list(prefix)))
  }

  /**
   * Runs `fn` in one transaction (`BEGIN IMMEDIATE`), and returns what it returned. A throw rolls back and passes as it is;
   * a call inside another transaction becomes a savepoint, so that a caught throw undoes only the inner part.
   *
   * @throws NexusError `INVALID_ARGUMENT` for an asynchronous `fn`: the transaction would be over before its first await
   */
  tx<T>(fn: (db: Connection) => T): T {
    if (fn instanceof AsyncFunction) throw this.#asyncError()
    this.#writing()
    const db = this.db
    let own: { error: unknown } | undefined
    try {
      // Made by the first call: it keeps nine prepared statements.
      this.#transaction ??= db.transaction((run: () => unknown) => run())
      return this.#transaction.immediate(() => {
        let result: T
        try {
          result = fn(db)
        } catch (error) {
          own = { error }
          throw error
        }
        if (isThenable(result)) {
          // Its rejection has no caller left: the refusal below is what the caller gets.
          void Promise.resolve(result).catch(() => undefined)
          own = { error: this.#asyncError() }
          throw own.error
        }
        return result
      }) as T
    } catch (error) {
      // What the caller threw is the caller's; only BEGIN, COMMIT and their like are ours to explain.
      if (own?.error === error) throw error
      throw this.#explain(error, 'storage.tx')
    }
  }

  /**
   * Lends a read-only connection, so that a long read doesn't stand in the way of writes on `db`. Give it back with
   * `release()` or `using`.
   *
   * @throws NexusError `THROTTLED` when `poolMaxOpen` are on loan
   */
  reader(): StorageReader {
    if (!this.isOpen) throw this.#closedError('storage.reader')
    return this.#guard('storage.reader', () => this.#readers.acquire())
  }

  /** See {@link releasePages}. */
  releaseMemory(): void {
    for (const db of [this.#db, ...this.#readers.idle]) {
      try {
        if (db.open && !db.inTransaction) releasePages(db)
      } catch {
        // An open iterator keeps SQLite from it, or another connection has the file for itself. There will be another time.
      }
    }
  }

  /** Ends the handle, but leaves its connections open: see `keepOpen`. */
  abandon(): void {
    this.#closed = true
    for (const db of [this.#db, ...this.#readers.drain()]) keepOpen(db)
  }

  /**
   * Ends the handle; the manager calls this. An open transaction rolls back.
   *
   * @returns false when an open iterator keeps the connection from closing; it then ends with the process
   */
  close(): boolean {
    this.#closed = true
    const { stillBusy } = this.#readers.close()
    return closeQuietly(this.#db) && stillBusy === 0
  }

  #writing(): void {
    if (this.#fenced !== undefined) throw this.#fenced
  }

  #withTable<T>(run: (kv: KeyValueTable) => T): T {
    if (this.#closed) throw this.#closedError('storage.kv')
    try {
      return run((this.#kv ??= new KeyValueTable(this.#db)))
    } catch (error) {
      // The transaction that made the table was rolled back, or the plugin dropped it: make it again.
      if (!isMissingTable(this.#db, error)) throw error
      return run((this.#kv = new KeyValueTable(this.#db)))
    }
  }

  #guard<T>(op: string, run: () => T): T {
    try {
      return run()
    } catch (error) {
      throw this.#explain(error, op)
    }
  }

  #explain(error: unknown, op: string): unknown {
    if (isNexusError(error)) return error
    if (!this.isOpen) return this.#closedError(op, error)
    if (error instanceof TypeError && !acceptsStatements(this.#db)) {
      const message = `The connection of plugin ${this.pluginId} has an open iterator: finish it first, or read through reader()`
      return new NexusError('PRECONDITION', message, { op, key: this.path, cause: error })
    }
    return fromSqliteError(error, op, `${op} on the database of plugin ${this.pluginId} at ${this.path}`, this.path)
  }

  #closedError(op: string, cause?: unknown): NexusError {
    return new NexusError(
      'CLOSED',
      `The database of plugin ${this.pluginId} was closed: open it again through the manager`,
      {
        op,
        key: this.path,
        cause,
      },
    )
  }

  #asyncError(): NexusError {
    const message =
      'tx() takes a synchronous function: an asynchronous one would go on after its transaction ended. Await first, then call tx()'
    return new NexusError('INVALID_ARGUMENT', message, { op: 'storage.tx', key: this.path })
  }
}

// While an iterator is open, better-sqlite3 refuses everything but reading on, with a TypeError.
function acceptsStatements(db: Connection): boolean {
  try {
    db.exec('')
    return true
  } catch {
    return false
  }
}

function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}
