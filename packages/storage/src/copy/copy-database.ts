import type { Connection } from '../open/connection.ts'
import { fileSizeBytes } from '../open/file-size.ts'
import { sqliteCode, sqliteError } from '../open/sqlite-error.ts'

const COPY_CACHE_KB = 1000
const MAX_STEP_PAGES = 0x7fffffff

/**
 * Writes a compact copy of everything committed into `destPath`, an empty file or none.
 *
 * The copy isn't synced to disk, and its journal mode is `delete`. Rowids, `user_version`, `application_id`, page size and
 * auto-vacuum stay what they were. All pages are read in one transaction: a commit meanwhile is in it wholly or not.
 *
 * @param db a connection of the manager's own: on a plugin's, an open iterator or transaction makes this fail
 */
export function vacuumInto(db: Connection, destPath: string): void {
  // Each page is visited once: a cache that fits the processor's is faster than a large one.
  db.pragma(`cache_size = -${COPY_CACHE_KB}`)
  // The copy is uploaded and thrown away, so syncing it would be waste. A checkpoint has to sync, though: the one before this
  // call, and the one that closing does when this turns out to be the database's last connection.
  db.pragma('synchronous = OFF')
  try {
    db.prepare('VACUUM INTO ?').run(destPath)
  } finally {
    db.pragma('synchronous = FULL')
  }
}

/**
 * Whether VACUUM INTO failed because of what the schema says, not because of locks, the disk or damage: it needs a function
 * or a collation that only the plugin's connection has, or rebuilds an index under another definition of one. Such a
 * database is copied page by page.
 */
export function isSchemaFailure(error: unknown): boolean {
  const code = sqliteCode(error)
  return code !== undefined && /^SQLITE_(?:ERROR|CONSTRAINT)(?:_|$)/.test(code)
}

/** How a page-by-page copy is paced. */
export interface BackupPace {
  /** Runs before each step; a throw ends the copy with it. */
  readonly onStep: () => void
  readonly pagesPerStep: number
  /** One step for everything, and no transaction held across turns of the event loop. */
  readonly inOneStep: boolean
}

/**
 * Copies every page into `destPath`, an empty file or none, as of one moment: exact while others write, and without running
 * anything of the schema. The copy keeps the journal mode of the original.
 */
export async function backupInto(db: Connection, destPath: string, pace: BackupPace): Promise<void> {
  if (!pace.inOneStep) {
    db.exec('BEGIN')
    // BEGIN takes nothing yet: this read does, and from here on the connection sees one state. Reading a header field
    // instead of a table leaves the schema unparsed.
    db.pragma('schema_version')
  }
  let steps = 0
  try {
    const { totalPages } = await db.backup(destPath, {
      progress: () => {
        // The step for everything came back with something left: it met a lock, and better-sqlite3 would try again without end.
        if (pace.inOneStep && steps > 0) throw sqliteError('SQLITE_BUSY', 'database is locked')
        steps++
        pace.onStep()
        return pace.inOneStep ? MAX_STEP_PAGES : pace.pagesPerStep
      },
    })
    // Nothing copied of a file that has bytes: it is no database. Or, unless the transaction proves that no lock was in the
    // way, better-sqlite3 took a step that ended with BUSY before it knew any page for the last one.
    if (totalPages === 0 && fileSizeBytes(db.name) > 0) {
      if (pace.inOneStep) throw sqliteError('SQLITE_BUSY', 'database is locked')
      throw sqliteError('SQLITE_NOTADB', 'file is not a database')
    }
  } finally {
    if (db.inTransaction) db.exec('COMMIT')
  }
}
