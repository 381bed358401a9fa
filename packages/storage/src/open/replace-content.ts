import Database from 'better-sqlite3'
import { fromSqliteError, sqliteError } from './sqlite-error.ts'

/** So many pages that the whole copy is one transaction of the database that receives it. */
const ALL_PAGES = 0x7fff_ffff

/**
 * Gives a database the content of another, through SQLite: a connection that has it open, in this process or another one, sees the
 * change as a transaction. Replacing the file would leave them with a file that has no name any more.
 *
 * @param from a whole database that nothing is connected to, not in WAL mode
 * @param to must exist and have the same page size
 * @throws NexusError `LOCKED` (retryable) while another connection writes, `CORRUPT`, `LOCAL_IO`, `PERMISSION`
 */
export async function replaceContent(from: string, to: string): Promise<void> {
  try {
    const source = new Database(from, { readonly: true, fileMustExist: true })
    try {
      const { totalPages } = await source.backup(to, { progress: () => ALL_PAGES })
      // A lock of somebody else ends the one step before it has counted the pages, and the promise resolves all the same.
      if (totalPages === 0) throw sqliteError('SQLITE_BUSY', 'database is locked')
    } finally {
      source.close()
    }
  } catch (error) {
    throw fromSqliteError(error, 'storage.replace', `Replacing the content of ${to}`, to)
  }
}
