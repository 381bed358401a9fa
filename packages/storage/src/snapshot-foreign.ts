import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fromSystemError } from '@nexus/errors'
import type { Copier } from './copier.ts'
import { reserveDestination } from './destination.ts'
import { inspectForeign, NotADatabaseError } from './foreign.ts'
import { fitsSqlite } from './path-length.ts'
import { fromSqliteError, sqliteCode } from './sqlite-error.ts'

/** What a copy of a file that isn't the manager's came to. */
export interface ForeignSnapshot {
  readonly sizeBytes: number
  readonly durationMs: number
}

/** Copies a SQLite file of which only its path is known. Throws as `StorageManager.snapshotForeign` says. */
export async function snapshotForeign(
  copier: Copier,
  livePath: string,
  destPath: string,
  signal: AbortSignal | undefined,
): Promise<ForeignSnapshot> {
  const startedMs = performance.now()
  const live = resolve(livePath)
  const dest = resolve(destPath)
  if (!fitsSqlite(live)) throw new NotADatabaseError(live, 'its path is longer than SQLite can open')
  if (inspectForeign(live) === 'empty') {
    reserveDestination(dest)
    return { sizeBytes: 0, durationMs: performance.now() - startedMs }
  }
  const alias = live === live.trim() ? undefined : makeAlias(live, dest)
  try {
    const { sizeBytes } = await copier.run({ kind: 'foreign', livePath: alias ?? live, destPath: dest }, signal)
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
  const alias = join(dirname(dest), `.nexus-tmp-${randomBytes(6).toString('hex')}`)
  try {
    mkdirSync(dirname(alias), { recursive: true, mode: 0o700 })
    symlinkSync(live, alias)
  } catch (error) {
    throw fromSystemError(error, 'storage.snapshotForeign', live)
  }
  return alias
}
