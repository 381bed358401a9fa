import { lstatSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { fromSystemError, isNexusError } from '@nexus/errors'
import { syncDirectory } from '@nexus/host'

/** What SQLite puts beside a database, by the end of the name. */
export const SIDECAR_SUFFIXES = ['-journal', '-wal', '-shm'] as const

/**
 * Removes what SQLite may have left beside a database that is gone or given up. Beside another database those files would
 * be taken for its own: a journal is rolled back into it, a WAL is replayed over it.
 *
 * @throws NexusError `LOCAL_IO`, `PERMISSION`
 */
export function removeSidecars(path: string): void {
  for (const suffix of SIDECAR_SUFFIXES) {
    try {
      rmSync(path + suffix, { force: true })
    } catch (error) {
      throw fromSystemError(error, 'storage.place', path + suffix)
    }
  }
}

/**
 * Puts a whole, synced database at a place where none is connected, in the same file system; what was there is replaced.
 *
 * The order: the old database goes first, then its sidecars, and both removals are made durable before the new one gets the
 * name. A crash in between leaves no database, which is seen and made good. With the sidecars first it could leave the old one
 * without its last transactions, and with the rename first, the new one beside the sidecars of the old.
 *
 * @throws NexusError `NOT_FOUND` when `from` is missing, `LOCAL_IO`, `PERMISSION`
 */
export async function placeDatabase(from: string, to: string): Promise<void> {
  try {
    lstatSync(from)
    rmSync(to, { force: true })
    removeSidecars(to)
    await syncDirectory(dirname(to))
    renameSync(from, to)
    await syncDirectory(dirname(to))
  } catch (error) {
    throw isNexusError(error) ? error : fromSystemError(error, 'storage.place', to)
  }
}
