import { NexusError } from '@nexus/errors'
import { openReadConnection, type Connection, type ConnectionSettings } from '../open/connection.ts'
import type { Place } from '../open/place.ts'

/** A read-only connection on loan. */
export interface StorageReader {
  /** The connection. Throws `CLOSED` once it was given back. */
  readonly db: Connection
  /** Gives it back; a second call does nothing. */
  release(): void
  [Symbol.dispose](): void
}

/** How many read-only connections one database may have. */
export interface ReaderPoolSettings extends ConnectionSettings {
  /** Connections that may be open at once. */
  readonly poolMaxOpen: number
  /** Of those, how many stay open while they are idle. */
  readonly poolMaxIdle: number
}

/** Lends read-only connections to one database. */
export class ReaderPool {
  readonly #place: Place
  readonly #settings: ReaderPoolSettings
  readonly #idle: Connection[] = []
  readonly #lent = new Set<Connection>()

  constructor(place: Place, settings: ReaderPoolSettings) {
    this.#place = place
    this.#settings = settings
  }

  /** Connections that wait to be lent. */
  get idle(): readonly Connection[] {
    return this.#idle
  }

  acquire(): StorageReader {
    const { path } = this.#place
    if (this.#lent.size >= this.#settings.poolMaxOpen) {
      throw new NexusError(
        'THROTTLED',
        `All ${this.#settings.poolMaxOpen} readers of ${path} are in use: release one, or raise core.storage.pool_max_open`,
        { op: 'storage.reader', key: path },
      )
    }
    const db = this.#idle.pop() ?? openReadConnection(this.#place, `Opening a reader of ${path}`, this.#settings)
    this.#lent.add(db)
    let released = false
    const release = (): void => {
      if (released) return
      released = true
      this.#giveBack(db)
    }
    return {
      get db(): Connection {
        if (released) {
          throw new NexusError('CLOSED', `This reader of ${path} was given back: ask for another`, {
            op: 'storage.reader',
            key: path,
          })
        }
        return db
      },
      release,
      [Symbol.dispose]: release,
    }
  }

  /** Closes every connection, lent ones included; one with an open iterator can't be closed and is named in the result. */
  close(): { stillBusy: number } {
    return { stillBusy: this.drain().filter((db) => !closeQuietly(db)).length }
  }

  /** Gives up every connection, lent ones included, without closing any. */
  drain(): Connection[] {
    const all = [...this.#idle, ...this.#lent]
    this.#idle.length = 0
    this.#lent.clear()
    return all
  }

  #giveBack(db: Connection): void {
    if (!this.#lent.delete(db)) return
    if (this.#idle.length < this.#settings.poolMaxIdle && isQuiet(db)) this.#idle.push(db)
    else closeQuietly(db)
  }
}

// An open iterator or transaction would pin the snapshot that the next borrower reads.
function isQuiet(db: Connection): boolean {
  try {
    if (db.inTransaction) db.exec('ROLLBACK')
    db.exec('')
    return db.open
  } catch {
    return false
  }
}

/** Closes a connection; false when an open iterator forbids it. */
export function closeQuietly(db: Connection): boolean {
  try {
    db.close()
    return true
  } catch {
    return false
  }
}
