import { lstatSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fromSystemError, isNexusError, NexusError } from '@nexus/errors'
import type { CheckpointCounts } from './checkpoint.ts'
import { openPluginConnection } from './connection.ts'
import { Copier, type CopyJob } from './copier.ts'
import type { CopyOutcome } from './copy-task.ts'
import { noFailpoint, type Failpoint } from './failpoint.ts'
import { inspectForeign, NotADatabaseError } from './foreign.ts'
import { silentLogger, type Logger } from './logger.ts'
import { DATABASE_FILE, databasePath, effectiveScope, type StorageScope } from './scope.ts'
import { fromSqliteError, sqliteCode } from './sqlite-error.ts'
import { Storage } from './storage.ts'
import { validatePluginId } from './plugin-id.ts'
import { discardDestination, reserveDestination } from './destination.ts'

/** What {@link openStorageManager} takes. Sizes and times are those of `core.storage`. */
export interface StorageManagerOptions {
  /** The session's directory. */
  sessionDir: string
  /** Holds app and agent scope. */
  storageRoot: string
  /** Without one, agent scope is app scope. */
  agentId?: string | undefined
  /** How long a call waits for another connection's lock. Default 5000. */
  busyTimeoutMs?: number
  /** Page cache of each connection, in KiB. Default 2048. */
  cacheSizeKb?: number
  /** Read-only connections per database that stay open unused. Default 2. */
  poolMaxIdle?: number
  /** Read-only connections per database at once. Default 4. */
  poolMaxOpen?: number
  logger?: Logger
  failpoint?: Failpoint
  /** Asked before a database is opened; what it throws, `open` throws. */
  beforeOpen?: (scope: StorageScope, pluginId: string, path: string) => void
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

/** What a copy of a file that isn't the manager's came to. */
export interface ForeignSnapshot {
  readonly sizeBytes: number
  readonly durationMs: number
}

interface Known {
  readonly scope: StorageScope
  readonly pluginId: string
  readonly livePath: string
  storage: Storage
}

const SLICE_MS = 4
const CLOSE_CHECKPOINT_BYTES = 256 * 1024

/**
 * Opens, checkpoints and copies the databases of the plugins of one session.
 *
 * Checkpoints and copies run on connections of the manager's own, so that an iterator or a transaction that a plugin left
 * open stands in nobody's way, and in a worker thread when the database is larger than a mebibyte.
 *
 * @see spec 30, Per-plugin storage
 */
export class StorageManager {
  readonly #options: Required<Omit<StorageManagerOptions, 'agentId' | 'beforeOpen' | 'failpoint'>> &
    StorageManagerOptions
  readonly #known = new Map<string, Known>()
  readonly #copier: Copier
  readonly #failpoint: Failpoint
  #state: 'open' | 'closed' | 'disposed' = 'open'

  /** @param workerUrl the worker to run, in place of the package's own; for tests */
  constructor(options: StorageManagerOptions, workerUrl?: URL) {
    this.#options = {
      busyTimeoutMs: 5000,
      cacheSizeKb: 2048,
      poolMaxIdle: 2,
      poolMaxOpen: 4,
      logger: silentLogger,
      ...options,
    }
    this.#failpoint = options.failpoint ?? noFailpoint
    this.#copier = new Copier({
      busyTimeoutMs: this.#options.busyTimeoutMs,
      logger: this.#options.logger,
      failpoint: options.failpoint,
      workerUrl,
    })
  }

  /**
   * The handle of a plugin's database, made on first use; the same one for every later call, unless the plugin closed it.
   *
   * @throws NexusError `INVALID_ARGUMENT` for a bad scope or id; `CORRUPT` when the file is no database (it is left as it
   * is); `PRECONDITION` when it is no regular file; `LOCKED`, `LOCAL_IO`, `PERMISSION`; `CLOSED` after {@link closeAll}.
   * What `beforeOpen` throws passes.
   */
  open(scope: StorageScope, pluginId: string): Storage {
    this.#assertState('open', 'storage.open')
    const effective = effectiveScope(scope, this.#options)
    const livePath = databasePath(effective, pluginId, this.#options)
    const known = this.#known.get(livePath)
    if (known?.storage.isOpen) return known.storage
    this.#options.beforeOpen?.(effective, pluginId, livePath)
    const storage = this.#connect(effective, pluginId, livePath)
    this.#known.set(livePath, { scope: effective, pluginId, livePath, storage })
    return storage
  }

  /** The live paths of the databases of a scope that were opened in this run, closed ones included. */
  paths(scope: StorageScope): string[] {
    return this.#of(scope).map(({ livePath }) => livePath)
  }

  /**
   * Moves each database's WAL into its file as far as that goes without waiting; what keeps it is reported as `busy`.
   *
   * @throws NexusError `LOCAL_IO`, `PERMISSION`, `CORRUPT`; `CLOSED` after {@link dispose}
   */
  async checkpoint(scope: StorageScope): Promise<CheckpointResult[]> {
    this.#assertState('closed', 'storage.checkpoint')
    return this.#checkpointAll(this.#present(scope))
  }

  /**
   * Writes a copy of every database of a scope that was opened in this run to `<destDir>/<plugin-id>/store.db`: everything
   * that is committed when its copy begins, whatever the plugin has open. Works after {@link closeAll}. A database whose
   * file was deleted is left out.
   *
   * All or nothing: when one fails, the copies already made are removed and the call rejects, naming plugin and file.
   *
   * @throws NexusError `PRECONDITION` when a destination exists; `CORRUPT`, `LOCKED`, `LOCAL_IO`, `PERMISSION`;
   * `UNAVAILABLE` when the worker died twice; `CLOSED` after {@link dispose}; the reason of `signal`
   */
  async snapshot(
    scope: StorageScope,
    destDir: string,
    { signal }: { signal?: AbortSignal | undefined } = {},
  ): Promise<DatabaseSnapshot[]> {
    this.#assertState('closed', 'storage.snapshot')
    signal?.throwIfAborted()
    const jobs = this.#present(scope).map((known) => ({
      known,
      destPath: join(destDir, ...validatePluginId(known.pluginId), DATABASE_FILE),
    }))
    const results = await this.#runAll(
      jobs,
      ({ known, destPath }) => ({ kind: 'snapshot', livePath: known.livePath, destPath }),
      ({ known }, error) =>
        this.#explain(
          error,
          'storage.snapshot',
          `The snapshot of the database of plugin ${known.pluginId} at ${known.livePath}`,
          known.livePath,
        ),
      signal,
    )
    const failed = results.find((result) => 'error' in result)
    if (failed !== undefined) {
      for (const [index, result] of results.entries()) {
        if ('outcome' in result) discardDestination((jobs[index] as (typeof jobs)[number]).destPath)
      }
      throw failed.error
    }
    return results.map((result, index) => {
      const { known, destPath } = jobs[index] as (typeof jobs)[number]
      const { outcome, durationMs } = result as { outcome: CopyOutcome; durationMs: number }
      const { pluginId, livePath } = known
      return { pluginId, livePath, snapshotPath: destPath, ...outcome, durationMs }
    })
  }

  /**
   * Copies any other SQLite file, page by page, as of one moment. Nothing of its schema runs and its WAL stays where it is; a
   * transaction that a dead process left half done is undone first, as the next program to open it would.
   *
   * @throws NotADatabaseError (code `UNSUPPORTED`) when the file, or what lies beside it, isn't SQLite's: nothing was
   * touched, copy it as a plain file. NexusError `PRECONDITION` when the destination exists; `NOT_FOUND`, `CORRUPT`,
   * `LOCKED`, `LOCAL_IO`, `PERMISSION`, `UNAVAILABLE`, `CLOSED`; the reason of `signal`
   */
  async snapshotForeign(
    livePath: string,
    destPath: string,
    { signal }: { signal?: AbortSignal | undefined } = {},
  ): Promise<ForeignSnapshot> {
    this.#assertState('closed', 'storage.snapshotForeign')
    signal?.throwIfAborted()
    const startedMs = performance.now()
    if (inspectForeign(livePath) === 'empty') {
      reserveDestination(destPath)
      return { sizeBytes: 0, durationMs: performance.now() - startedMs }
    }
    try {
      const { sizeBytes } = await this.#copier.run({ kind: 'foreign', livePath, destPath }, signal)
      return { sizeBytes, durationMs: performance.now() - startedMs }
    } catch (error) {
      if (signal?.aborted && error === signal.reason) throw error
      if (sqliteCode(error)?.startsWith('SQLITE_NOTADB'))
        throw new NotADatabaseError(livePath, "its header is not SQLite's", error)
      throw this.#explain(error, 'storage.snapshotForeign', `The snapshot of ${livePath}`, livePath)
    }
  }

  /**
   * Closes every handle. Uncommitted transactions roll back; {@link snapshot}, {@link snapshotForeign} and
   * {@link checkpoint} go on working, {@link open} doesn't.
   */
  async closeAll(): Promise<void> {
    if (this.#state !== 'open') return
    this.#state = 'closed'
    const known = [...this.#known.values()]
    await this.#drainWals(known)
    for (const { storage, pluginId, livePath } of known) {
      if (!storage.close()) {
        this.#options.logger.warn(
          { pluginId, path: livePath },
          'a database could not be closed: the plugin left an iterator open',
        )
      }
    }
  }

  /** Closes every handle and ends the worker. Afterwards every call throws `CLOSED`. */
  async dispose(): Promise<void> {
    if (this.#state === 'disposed') return
    await this.closeAll()
    this.#state = 'disposed'
    await this.#copier.close()
  }

  #connect(scope: StorageScope, pluginId: string, livePath: string): Storage {
    const what = `Opening the database of plugin ${pluginId} at ${livePath}`
    try {
      mkdirSync(dirname(livePath), { recursive: true, mode: 0o700 })
      // stat and its kind don't open the file, which would drop the locks of a connection elsewhere in this process.
      if (lstatSync(livePath, { throwIfNoEntry: false })?.isFile() === false) {
        throw new NexusError('PRECONDITION', `${what} failed: it is not a regular file. Move it away`, {
          op: 'storage.open',
          key: livePath,
        })
      }
    } catch (error) {
      if (isNexusError(error)) throw error
      throw fromSystemError(error, 'storage.open', livePath)
    }
    try {
      const { db, journalMode } = openPluginConnection(livePath, this.#options, () =>
        this.#failpoint('storage:open-before-wal'),
      )
      if (journalMode !== 'wal') {
        this.#options.logger.warn({ pluginId, path: livePath, journalMode }, 'this file system does not support WAL')
      }
      return new Storage({ scope, pluginId, path: livePath }, db, this.#options)
    } catch (error) {
      throw fromSqliteError(error, 'storage.open', what, livePath)
    }
  }

  #assertState(needed: 'open' | 'closed', op: string): void {
    if (this.#state === 'open' || this.#state === needed) return
    const why = this.#state === 'disposed' ? 'was disposed' : 'has closed its handles'
    throw new NexusError('CLOSED', `The storage manager ${why}`, { op })
  }

  #of(scope: StorageScope): Known[] {
    const effective = effectiveScope(scope, this.#options)
    return [...this.#known.values()]
      .filter((known) => known.scope === effective)
      .toSorted((a, b) => (a.pluginId < b.pluginId ? -1 : 1))
  }

  #present(scope: StorageScope): Known[] {
    return this.#of(scope).filter(({ pluginId, livePath }) => {
      const exists = lstatSync(livePath, { throwIfNoEntry: false })?.isFile() === true
      if (!exists) this.#options.logger.warn({ pluginId, path: livePath }, 'the file of an open database was deleted')
      return exists
    })
  }

  async #checkpointAll(all: readonly Known[]): Promise<CheckpointResult[]> {
    const results = await this.#runAll(
      all,
      ({ livePath }) => ({ kind: 'checkpoint', livePath }),
      ({ pluginId, livePath }, error) =>
        this.#explain(
          error,
          'storage.checkpoint',
          `The checkpoint of the database of plugin ${pluginId} at ${livePath}`,
          livePath,
        ),
      undefined,
    )
    return results.map((result, index) => {
      if ('error' in result) throw result.error
      const { pluginId, livePath } = all[index] as Known
      return { pluginId, livePath, ...result.outcome.checkpoint }
    })
  }

  /** Large ones go to the worker at once; small ones are done here meanwhile, in slices. Waits for all, failed or not. */
  async #runAll<T>(
    items: readonly T[],
    toJob: (item: T) => CopyJob,
    explain: (item: T, error: unknown) => unknown,
    signal: AbortSignal | undefined,
  ): Promise<({ outcome: CopyOutcome; durationMs: number } | { error: unknown })[]> {
    const run = async (item: T): Promise<{ outcome: CopyOutcome; durationMs: number } | { error: unknown }> => {
      const startedMs = performance.now()
      try {
        const outcome = await this.#copier.run(toJob(item), signal)
        return { outcome, durationMs: performance.now() - startedMs }
      } catch (error) {
        return { error: signal?.aborted && error === signal.reason ? error : explain(item, error) }
      }
    }
    const large = items.filter((item) => !this.#copier.isInline(toJob(item)))
    const results = new Map(large.map((item) => [item, run(item)]))
    let sliceStartMs = performance.now()
    for (const item of items) {
      if (results.has(item)) continue
      if (performance.now() - sliceStartMs > SLICE_MS) {
        await new Promise((resolve) => setImmediate(resolve))
        sliceStartMs = performance.now()
      }
      results.set(item, run(item))
      await results.get(item)
    }
    return Promise.all(items.map((item) => results.get(item) as ReturnType<typeof run>))
  }

  // The last connection to close moves the whole WAL into the file, on this thread: empty it in the worker first.
  async #drainWals(known: readonly Known[]): Promise<void> {
    const heavy = known.filter(({ livePath }) => {
      const wal = lstatSync(`${livePath}-wal`, { throwIfNoEntry: false })
      return wal !== undefined && wal.size > CLOSE_CHECKPOINT_BYTES
    })
    try {
      await this.#checkpointAll(heavy)
    } catch (error) {
      this.#options.logger.warn({ err: error }, 'a checkpoint before closing failed: the WAL is kept')
    }
  }

  #explain(error: unknown, op: string, what: string, path: string): unknown {
    return fromSqliteError(error, op, what, path)
  }
}

/** Makes a manager. It opens nothing and starts no thread by itself. */
export function openStorageManager(options: StorageManagerOptions): StorageManager {
  return new StorageManager(options)
}
