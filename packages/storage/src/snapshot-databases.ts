import { lstatSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { systemCode } from '@nexus/errors'
import type { CheckpointCounts } from './checkpoint.ts'
import type { Copier } from './copier.ts'
import { discardDestination } from './destination.ts'
import type { Logger } from './logger.ts'
import { validatePluginId } from './plugin-id.ts'
import { runJobs, type JobResult } from './run-jobs.ts'
import { DATABASE_FILE } from './scope.ts'
import { fromSqliteError } from './sqlite-error.ts'

/** A plugin's database, whether its handle is open or not. */
export interface PluginDatabase {
  readonly pluginId: string
  readonly livePath: string
}

/** What a checkpoint did to one database. */
export interface CheckpointResult extends CheckpointCounts {
  readonly pluginId: string
  readonly livePath: string
}

/** One database of a snapshot. */
export interface DatabaseSnapshot {
  readonly pluginId: string
  readonly livePath: string
  /** `<destDir>/<plugin-id>/store.db`: one file, nothing beside it, journal mode `delete`, not synced to disk. */
  readonly snapshotPath: string
  readonly sizeBytes: number
  readonly checkpoint: CheckpointCounts
  readonly durationMs: number
}

function explain(error: unknown, verb: string, { pluginId, livePath }: PluginDatabase): unknown {
  const what = `The ${verb} of the database of plugin ${pluginId} at ${livePath}`
  return fromSqliteError(error, `storage.${verb}`, what, livePath)
}

// lstat doesn't open the file, which would drop this process's locks on it.
function isFile(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true
  } catch (error) {
    // A parent that is a file now. Whatever else it is, SQLite will say so about the database itself.
    return systemCode(error) !== 'ENOTDIR'
  }
}

/** Those whose file still exists: one that was deleted has nothing to copy, and must not come back as an empty one. */
export function stillPresent<T extends PluginDatabase>(databases: readonly T[], logger: Logger): T[] {
  return databases.filter(({ pluginId, livePath }) => {
    const exists = isFile(livePath)
    if (!exists) logger.warn({ pluginId, path: livePath }, 'the file of an open database was deleted: it is left out')
    return exists
  })
}

/** Checkpoints databases; throws the first failure once all are done. */
export async function checkpointDatabases(
  copier: Copier,
  databases: readonly PluginDatabase[],
): Promise<CheckpointResult[]> {
  const results = await runJobs(
    copier,
    databases.map(({ livePath }) => ({ kind: 'checkpoint', livePath })),
    undefined,
  )
  return databases.map((database, index) => {
    const result = results[index] as JobResult
    if (!result.ok) throw explain(result.error, 'checkpoint', database)
    return { pluginId: database.pluginId, livePath: database.livePath, ...result.outcome.checkpoint }
  })
}

/**
 * Copies databases below `destDir`, all or none: when one fails, or `signal` fires, the copies already made are removed.
 * Nothing else there is touched.
 */
export async function snapshotDatabases(
  copier: Copier,
  databases: readonly PluginDatabase[],
  destDir: string,
  signal: AbortSignal | undefined,
): Promise<DatabaseSnapshot[]> {
  const jobs = databases.map(({ pluginId, livePath }) => ({
    kind: 'snapshot' as const,
    livePath,
    destPath: join(resolve(destDir), ...validatePluginId(pluginId), DATABASE_FILE),
  }))
  const results = await runJobs(copier, jobs, signal)
  const failedAt = results.findIndex((result) => !result.ok)
  if (failedAt !== -1) {
    for (const [index, { destPath }] of jobs.entries()) if (results[index]?.ok) discardDestination(destPath)
    signal?.throwIfAborted()
    throw explain(
      (results[failedAt] as JobResult & { ok: false }).error,
      'snapshot',
      databases[failedAt] as PluginDatabase,
    )
  }
  return databases.map(({ pluginId, livePath }, index) => {
    const { outcome, durationMs } = results[index] as JobResult & { ok: true }
    const snapshotPath = (jobs[index] as (typeof jobs)[number]).destPath
    return {
      pluginId,
      livePath,
      snapshotPath,
      sizeBytes: outcome.sizeBytes,
      checkpoint: outcome.checkpoint,
      durationMs,
    }
  })
}
