import { NexusError } from '@nexus/errors'
import { Copier } from './copier.ts'
import { noFailpoint, type Failpoint } from './failpoint.ts'
import { fileSizeBytes } from './file-size.ts'
import { silentLogger, type Logger } from './logger.ts'
import { openStorage, type OpenStorageOptions } from './open-storage.ts'
import { databasePath, effectiveScope, type StorageScope } from './scope.ts'
import {
  checkpointDatabases,
  snapshotDatabases,
  stillPresent,
  type CheckpointResult,
  type DatabaseSnapshot,
  type PluginDatabase,
} from './snapshot-databases.ts'
import { snapshotForeign, type ForeignSnapshot } from './snapshot-foreign.ts'
import type { Storage } from './storage.ts'

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
  /** Whether deleted content is overwritten with zeros. Default false. */
  secureDelete?: boolean
  /** Read-only connections per database that stay open unused. Default 2. */
  poolMaxIdle?: number
  /** Read-only connections per database at once. Default 4. */
  poolMaxOpen?: number
  logger?: Logger
  failpoint?: Failpoint
  /** Asked before a database is opened; what it throws, `open` throws. */
  beforeOpen?: (scope: StorageScope, pluginId: string, path: string) => void
}

interface Known extends PluginDatabase {
  readonly scope: StorageScope
  readonly storage: Storage
}

// Below this, closing the last connection moves the WAL into the file fast enough to be done right there.
const CLOSE_INLINE_WAL_BYTES = 256 * 1024

/**
 * Opens, checkpoints and copies the databases of the plugins of one session.
 *
 * Checkpoints and copies run on connections of the manager's own, so that an iterator or a transaction that a plugin left
 * open stands in nobody's way, and in a worker thread when the database is larger than a mebibyte.
 *
 * @see spec 30, Per-plugin storage
 */
export class StorageManager {
  readonly #options: StorageManagerOptions
  readonly #opening: OpenStorageOptions
  readonly #copier: Copier
  readonly #known = new Map<string, Known>()
  #state: 'open' | 'closed' | 'disposed' = 'open'
  #closing: Promise<void> | undefined
  #disposing: Promise<void> | undefined

  /** @param workerUrl the worker to run, in place of the package's own; for tests */
  constructor(options: StorageManagerOptions, workerUrl?: URL) {
    const { busyTimeoutMs = 5000, cacheSizeKb = 2048, poolMaxIdle = 2, poolMaxOpen = 4, secureDelete = false } = options
    const { logger = silentLogger, failpoint } = options
    this.#options = options
    this.#opening = {
      settings: { busyTimeoutMs, cacheSizeKb, poolMaxIdle, poolMaxOpen, secureDelete },
      logger,
      failpoint: failpoint ?? noFailpoint,
    }
    this.#copier = new Copier({ busyTimeoutMs, logger, failpoint, workerUrl })
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
    // The plugin closed the connection; its readers may be open still.
    known?.storage.close()
    this.#options.beforeOpen?.(effective, pluginId, livePath)
    const storage = openStorage({ scope: effective, pluginId, path: livePath }, this.#opening)
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
    return checkpointDatabases(this.#copier, this.#present(scope))
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
    return snapshotDatabases(this.#copier, this.#present(scope), destDir, signal)
  }

  /**
   * Copies any other SQLite file, page by page, as of one moment. Nothing of its schema runs. Its WAL stays where it is, and
   * SQLite may put a `-shm` beside it; a transaction that a dead process left half done is undone first, as the next program
   * to open it would.
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
    return snapshotForeign(this.#copier, livePath, destPath, signal)
  }

  /**
   * Closes every handle. Uncommitted transactions roll back; {@link snapshot}, {@link snapshotForeign} and
   * {@link checkpoint} go on working, {@link open} doesn't.
   */
  closeAll(): Promise<void> {
    return (this.#closing ??= this.#closeHandles())
  }

  /** Closes every handle and ends the worker; a copy that was running rejects. Afterwards every call throws `CLOSED`. */
  dispose(): Promise<void> {
    return (this.#disposing ??= this.#end())
  }

  async #closeHandles(): Promise<void> {
    if (this.#state === 'open') this.#state = 'closed'
    const known = [...this.#known.values()]
    await this.#drainWals(known)
    for (const { storage, pluginId, livePath: path } of known) {
      if (storage.close()) continue
      this.#opening.logger.warn({ pluginId, path }, 'a database could not be closed: the plugin left an iterator open')
    }
  }

  async #end(): Promise<void> {
    this.#state = 'disposed'
    this.#copier.cancelAll()
    await this.closeAll()
    await this.#copier.close()
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
    return stillPresent(this.#of(scope), this.#opening.logger)
  }

  // The last connection to close moves the whole WAL into the file, on this thread: empty large ones in the worker first.
  async #drainWals(known: readonly Known[]): Promise<void> {
    const large = known.filter(({ livePath }) => fileSizeBytes(`${livePath}-wal`) > CLOSE_INLINE_WAL_BYTES)
    try {
      await checkpointDatabases(this.#copier, large)
    } catch (error) {
      this.#opening.logger.warn({ err: error }, 'a checkpoint before closing failed: the WAL is kept')
    }
  }
}

/** Makes a manager. It opens nothing and starts no thread by itself. */
export function openStorageManager(options: StorageManagerOptions): StorageManager {
  return new StorageManager(options)
}
