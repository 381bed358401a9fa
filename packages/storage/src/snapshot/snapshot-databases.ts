import { basename, join, resolve } from 'node:path'
import type { CheckpointCounts } from '../copy/checkpoint.ts'
import type { Copier } from '../copy/copier.ts'
import { discardDestination } from '../copy/destination.ts'
import type { Place } from '../open/place.ts'
import { fromSqliteError } from '../open/sqlite-error.ts'
import { runJobs, type JobResult } from './run-jobs.ts'

/** A plugin's database, whether its handle is open or not. */
export interface PluginDatabase {
  readonly pluginId: string
  readonly place: Place
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

/** How databases are taken as of one instant each. */
export interface DatabaseCapture {
  /**
   * Takes databases below `destDir`, `<plugin-id>/store.db` each, all or none: when one fails, or `signal` fires, what was
   * made is removed. Nothing else there is touched.
   */
  capture(
    databases: readonly PluginDatabase[],
    destDir: string,
    signal: AbortSignal | undefined,
  ): Promise<DatabaseSnapshot[]>
}

function explain(error: unknown, verb: string, { pluginId, place: { path } }: PluginDatabase): unknown {
  const what = `The ${verb} of the database of plugin ${pluginId} at ${path}`
  return fromSqliteError(error, `storage.${verb}`, what, path)
}

/** Checkpoints databases; throws the first failure once all are done. */
export async function checkpointDatabases(
  copier: Copier,
  databases: readonly PluginDatabase[],
): Promise<CheckpointResult[]> {
  const results = await runJobs(
    copier,
    databases.map(({ place }) => ({ kind: 'checkpoint', place })),
    undefined,
  )
  return databases.map((database, index) => {
    const result = results[index] as JobResult
    if (!result.ok) throw explain(result.error, 'checkpoint', database)
    return { pluginId: database.pluginId, livePath: database.place.path, ...result.outcome.checkpoint }
  })
}

/** Copies each database whole, through SQLite. */
export class CopyCapture implements DatabaseCapture {
  readonly #copier: Copier

  constructor(copier: Copier) {
    this.#copier = copier
  }

  async capture(
    databases: readonly PluginDatabase[],
    destDir: string,
    signal: AbortSignal | undefined,
  ): Promise<DatabaseSnapshot[]> {
    const jobs = databases.map(({ pluginId, place }) => ({
      kind: 'snapshot' as const,
      place,
      destPath: join(resolve(destDir), pluginId, basename(place.path)),
    }))
    const results = await runJobs(this.#copier, jobs, signal)
    const failedAt = results.findIndex((result) => !result.ok)
    if (failedAt !== -1) {
      for (const [index, { destPath }] of jobs.entries()) if (results[index]?.ok) discardDestination(destPath)
      signal?.throwIfAborted()
      const { error } = results[failedAt] as JobResult & { ok: false }
      throw explain(error, 'snapshot', databases[failedAt] as PluginDatabase)
    }
    return databases.map(({ pluginId, place }, index) => {
      const { outcome, durationMs } = results[index] as JobResult & { ok: true }
      const { destPath } = jobs[index] as (typeof jobs)[number]
      return { pluginId, livePath: place.path, snapshotPath: destPath, durationMs, ...outcome }
    })
  }
}
