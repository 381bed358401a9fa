import { mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { engineTempName } from '@nexus/host'
import type { Copier } from '../copy/copier.ts'
import { reserveDestination } from '../copy/destination.ts'
import { inspectForeign, NotADatabaseError } from './foreign.ts'
import { fitsSqlite } from '../open/path-length.ts'
import type { Place } from '../open/place.ts'
import { explainSystemError, fromSqliteError, sqliteCode } from '../open/sqlite-error.ts'

/** What a copy of a file that isn't the manager's came to. */
export interface ForeignSnapshot {
  readonly sizeBytes: number
  readonly durationMs: number
}

/** Copies a SQLite file of which only its path is known. Throws as `StorageManager.snapshotForeign` says. */
export async function snapshotForeign(
  copier: Copier,
  { root, path: live }: Place,
  destPath: string,
  signal: AbortSignal | undefined,
): Promise<ForeignSnapshot> {
  const startedMs = performance.now()
  const dest = resolve(destPath)
  if (!fitsSqlite(live)) throw new NotADatabaseError(live, 'its path is longer than SQLite can open')
  if (inspectForeign({ root, path: live }) === 'empty') {
    reserveDestination(dest)
    return { sizeBytes: 0, durationMs: performance.now() - startedMs }
  }
  const alias = live === live.trim() ? undefined : makeAlias(live, dest)
  try {
    const job = { kind: 'foreign' as const, place: { root, path: live }, destPath: dest, alias }
    const { sizeBytes } = await copier.run(job, signal)
    return { sizeBytes, durationMs: performance.now() - startedMs }
  } catch (error) {
    signal?.throwIfAborted()
    if (sqliteCode(error)?.startsWith('SQLITE_NOTADB')) {
      throw new NotADatabaseError(live, 'its header is not one of SQLite', error)
    }
    throw fromSqliteError(error, 'storage.snapshotForeign', `The snapshot of ${live}`, live)
  } finally {
    if (alias !== undefined) rmSync(alias, { force: true })
  }
}

// better-sqlite3 trims file names, and would open another file than the one that was asked for. SQLite follows the link, and
// looks for the sidecars beside the real file.
function makeAlias(live: string, dest: string): string {
  const alias = join(dirname(dest), engineTempName())
  try {
    mkdirSync(dirname(alias), { recursive: true, mode: 0o700 })
    symlinkSync(live, alias)
  } catch (error) {
    throw explainSystemError(error, 'storage.snapshotForeign', live)
  }
  return alias
}
