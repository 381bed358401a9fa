import Database from 'better-sqlite3'
import { fileSizeBytes } from './file-size.ts'
import { releasePages } from './page-cache.ts'
import { openAt, type Opened, type Place } from './place.ts'
import { isBusy, sqliteError } from './sqlite-error.ts'

/** A connection of better-sqlite3. */
export type Connection = Database.Database

/** What every connection of the manager is opened with. */
export interface ConnectionSettings {
  readonly busyTimeoutMs: number
  readonly cacheSizeKb: number
  /** Overwrites deleted content with zeros. */
  readonly secureDelete: boolean
  /** Leaves the WAL to the manager: SQLite moves nothing into the file by itself. */
  readonly keepsWal: boolean
}

const RETRY_MS = 5

function sleepSync(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

// Turning a database into WAL needs it for itself, and SQLite answers BUSY to the loser of that race without asking the
// busy handler. Two processes that open a new database at once must both succeed.
function enterWal(db: Connection, busyTimeoutMs: number): string {
  const deadline = performance.now() + busyTimeoutMs
  for (;;) {
    try {
      refuseFragment(db)
      const current = db.pragma('journal_mode', { simple: true })
      return String(current === 'wal' ? current : db.pragma('journal_mode = WAL', { simple: true }))
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadline) throw error
      sleepSync(RETRY_MS)
    }
  }
}

// SQLite takes a file of fewer bytes than a page for an empty database, and its first write would replace them.
function refuseFragment(db: Connection): void {
  const isEmpty = (): boolean => db.pragma('page_count', { simple: true }) === 0
  const hasBytes = (): boolean => fileSizeBytes(db.name) > 0
  // Looked at twice: another process may have been making the database between the first look and the file's size.
  if (isEmpty() && hasBytes() && isEmpty()) throw sqliteError('SQLITE_NOTADB', 'file is not a database')
}

/**
 * Opens a plugin's own connection, making directories (0700) and file (0600) when they are missing: WAL,
 * `synchronous=NORMAL`, foreign keys on.
 *
 * @param beforeWal runs between opening and the first access to the file
 * @returns the connection and the journal mode that it got: not `wal` on a file system without shared memory
 */
export function openPluginConnection(
  place: Place,
  what: string,
  settings: ConnectionSettings,
  beforeWal: () => void,
): Opened & { journalMode: string } {
  let journalMode = ''
  const opened = openAt(place, what, {
    create: true,
    connect: () => new Database(place.path, { fileMustExist: true, timeout: settings.busyTimeoutMs }),
    prepare: (db) => {
      beforeWal()
      journalMode = enterWal(db, settings.busyTimeoutMs)
      db.pragma('synchronous = NORMAL')
      db.pragma(`cache_size = -${settings.cacheSizeKb}`)
      db.pragma('foreign_keys = ON')
      if (settings.secureDelete) db.pragma('secure_delete = ON')
      if (settings.keepsWal) db.pragma('wal_autocheckpoint = 0')
      releasePages(db)
    },
  })
  return { ...opened, journalMode }
}

/** Opens a read-only connection to a database that exists. */
export function openReadConnection(place: Place, what: string, settings: ConnectionSettings): Connection {
  return openAt(place, what, {
    connect: () => new Database(place.path, { readonly: true, fileMustExist: true, timeout: settings.busyTimeoutMs }),
    prepare: (db) => {
      db.pragma(`cache_size = -${settings.cacheSizeKb}`)
      // Reads the file, and so finds out whether it is a database at all.
      releasePages(db)
    },
  }).db
}

/** A connection of the manager's own that may write, and waits for no lock. */
export function openWithoutWaiting(place: Place): Connection {
  return openAt(place, `Opening the database at ${place.path} to capture it`, {
    connect: () => new Database(place.path, { fileMustExist: true, timeout: 0 }),
    // A header field: it leaves the schema unparsed.
    prepare: (db) => void db.pragma('schema_version'),
  }).db
}
