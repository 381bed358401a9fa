import { dirname, resolve, sep } from 'node:path'
import { NexusError } from '@nexus/errors'
import { noFailpoint, silentLogger, systemClock, type Clock, type Logger, type SyncFailpoint } from '@nexus/host'
import { Copier } from './copy/copier.ts'
import { processCopyPool, type CopyPool } from './copy/copy-pool.ts'
import type { Storage } from './handle/storage.ts'
import { openFilesLimit } from './open/exhaustion.ts'
import { openReadConnection } from './open/connection.ts'
import { fileSizeBytes } from './open/file-size.ts'
import { openStorage, type OpenStorageOptions } from './handle/open-storage.ts'
import type { FileIdentity, Place } from './open/place.ts'
import { databasePlace, effectiveScope, type StorageScope } from './open/scope.ts'
import { canPin } from './pages/pinned/can-pin.ts'
import type { DatabaseInstant } from './pages/instant.ts'
import { PageCapture } from './pages/page-capture.ts'
import { lostContent, type LostContent } from './snapshot/lost-content.ts'
import {
  checkpointDatabases,
  CopyCapture,
  type CheckpointResult,
  type DatabaseCapture,
  type DatabaseSnapshot,
  type PluginDatabase,
} from './snapshot/snapshot-databases.ts'
import { snapshotForeign, type ForeignSnapshot } from './snapshot/snapshot-foreign.ts'
import { WalWatch } from './snapshot/wal-watch.ts'

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
  /**
   * Whether databases are taken by {@link StorageManager.capture}: SQLite's own checkpoints are off, and the manager empties WALs
   * of about a thousand frames within seconds. Default false.
   */
  pageCapture?: boolean
  logger?: Logger
  failpoint?: SyncFailpoint
  clock?: Clock
  /** Asked before a database is opened; what it throws, `open` throws. */
  beforeOpen?: (scope: StorageScope, pluginId: string, path: string) => void
}

interface Known extends PluginDatabase {
  readonly scope: StorageScope
  readonly storage: Storage
  readonly file: FileIdentity
  hasHeldBytes: boolean
}

// Below this, closing the last connection moves the WAL into the file fast enough to be done right there.
const CLOSE_INLINE_WAL_BYTES = 256 * 1024
// Twice what SQLite's own checkpoints leave, so a WAL of this size is one that they could not empty.
const LARGE_WAL = { bytes: 8 * 1024 * 1024, intervalMs: 30_000 }
// Without them it is what they would have begun at.
const LONG_WAL = { bytes: 4 * 1024 * 1024, intervalMs: 1000 }
// Reading a database of this size whole takes as long as opening the connections of a pin.
const PLAIN_BYTES = 1024 * 1024
// A pin reads one page, and takes another way when it meets a lock.
const PIN_SETTINGS = { busyTimeoutMs: 0, cacheSizeKb: 64, secureDelete: false, keepsWal: true }

/**
 * Opens, checkpoints and copies the databases of the plugins of one session.
 *
 * Checkpoints and copies run on connections of the manager's own, so that an iterator or a transaction that a plugin left
 * open is in no copy's way, and in a worker thread of the process when the database is larger than a mebibyte. An open
 * database costs four descriptors: file, WAL, shared memory, and one that SQLite keeps for the copies' connections.
 *
 * @see docs/concepts/durability.md
 */
export class StorageManager {
  readonly #options: StorageManagerOptions
  readonly #opening: OpenStorageOptions
  readonly #copier: Copier
  readonly #capture: DatabaseCapture
  readonly #pages: PageCapture
  readonly #watch: WalWatch
  readonly #known = new Map<string, Known>()
  #state: 'open' | 'closed' | 'disposed' = 'open'
  #fenced: Error | undefined
  #closing: Promise<void> | undefined
  #disposing: Promise<void> | undefined

  /** @param pool the threads to copy in, in place of the process's own; for tests */
  constructor(options: StorageManagerOptions, pool: CopyPool = processCopyPool()) {
    const { busyTimeoutMs = 5000, cacheSizeKb = 2048, poolMaxIdle = 2, poolMaxOpen = 4, secureDelete = false } = options
    const { logger = silentLogger, failpoint, clock = systemClock, pageCapture = false } = options
    // Read now: once the limit is reached it can't be read any more, and the error has to name it.
    openFilesLimit()
    this.#options = options
    this.#opening = {
      settings: { busyTimeoutMs, cacheSizeKb, poolMaxIdle, poolMaxOpen, secureDelete, keepsWal: pageCapture },
      logger,
      failpoint: failpoint ?? noFailpoint,
    }
    this.#copier = new Copier({ busyTimeoutMs, logger, failpoint, pool })
    this.#capture = new CopyCapture(this.#copier)
    this.#pages = new PageCapture({
      copier: this.#copier,
      logger,
      step: failpoint ?? noFailpoint,
      canPin,
      smallBytes: PLAIN_BYTES,
      connect: ({ place }) => openReadConnection(place, `Pinning the database at ${place.path}`, PIN_SETTINGS),
    })
    const large = pageCapture ? LONG_WAL : LARGE_WAL
    const look = (): Promise<void> => {
      this.#pages.tick(clock.now())
      // Page capture looks every second, and releases at each turn.
      if (!pageCapture) this.#releaseMemory()
      return this.#drainWals(large.bytes)
    }
    this.#watch = new WalWatch(clock, logger, look, large.intervalMs)
  }

  /**
   * The handle of a plugin's database, made on first use; the same one for every later call, unless the plugin closed it.
   *
   * @throws NexusError `INVALID_ARGUMENT` for a bad scope or id; `CORRUPT` when the file is no database (it is left as it
   * is); `PRECONDITION` when it is no regular file; `LOCKED`, `LOCAL_IO`, `PERMISSION`; `CLOSED` after {@link closeAll}.
   * What `beforeOpen` throws passes, and the reason of {@link fence}.
   */
  open(scope: StorageScope, pluginId: string): Storage {
    this.#assertState('open', 'storage.open')
    const effective = effectiveScope(scope, this.#options)
    const place = databasePlace(effective, pluginId, this.#options)
    const known = this.#known.get(place.path)
    if (known?.storage.isOpen) return known.storage
    // The plugin closed the connection; its readers may be open still.
    known?.storage.close()
    if (this.#fenced !== undefined) throw this.#fenced
    this.#options.beforeOpen?.(effective, pluginId, place.path)
    const { storage, file } = openStorage({ scope: effective, pluginId, place }, this.#opening)
    this.#known.set(place.path, { scope: effective, pluginId, place, storage, file, hasHeldBytes: file.size > 0n })
    this.#watch.start()
    return storage
  }

  /**
   * The session is another's: from now on no database is opened, and nothing is written through the handles there are, the raw
   * connections included. Reading goes on.
   *
   * @param reason what `open`, `put`, `delete` and `tx` throw
   */
  fence(reason: Error): void {
    this.#fenced ??= reason
    for (const { storage } of this.#known.values()) storage.fence(this.#fenced)
  }

  /** The live paths of the databases of a scope that were opened in this run, closed ones included. */
  paths(scope: StorageScope): string[] {
    return this.#of(scope).map(({ place }) => place.path)
  }

  /**
   * Moves each database's WAL into its file as far as that goes without waiting; what keeps it is reported as `busy`.
   *
   * @throws NexusError `LOCAL_IO`, `PERMISSION`, `CORRUPT`; `CLOSED` after {@link dispose}
   */
  async checkpoint(scope: StorageScope): Promise<CheckpointResult[]> {
    this.#assertState('closed', 'storage.checkpoint')
    return this.#checkpoint(this.#present(scope))
  }

  /**
   * Writes a copy of every database of a scope that was opened in this run to `<destDir>/<plugin-id>/store.db`: everything
   * that is committed when its copy begins, whatever the plugin has open. Works after {@link closeAll}. A database whose
   * content is lost (its file was deleted, emptied, or replaced by another file, a link or a directory, or its directory
   * was) is left out, with a warning.
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
    const copies = await this.#capture.capture(this.#present(scope), destDir, signal)
    for (const { pluginId, livePath, checkpoint } of copies) this.#watch.report({ pluginId, livePath, ...checkpoint })
    this.#releaseMemory(scope)
    return copies
  }

  /**
   * Takes every database of a scope that was opened in this run as of one instant each, page by page, and tells which pages
   * are different from an earlier instant. Copies nothing where that can be helped. Works after {@link closeAll}, and leaves
   * out what {@link snapshot} leaves out. Release each instant as soon as it was read: its WAL grows until then.
   *
   * All or nothing: when one fails, the call rejects, naming plugin and file.
   *
   * @param dir a fresh directory for copies that can't be done without; remove it after the instants were released
   * @param options `since` names by live path the instants to compare with: the last ones whose content was stored
   * @throws NexusError `PRECONDITION` while an earlier instant of a database is held; `CORRUPT`, `LOCKED`, `LOCAL_IO`,
   * `PERMISSION`, `UNAVAILABLE`; `CLOSED` after {@link dispose}; the reason of `signal`
   */
  async capture(
    scope: StorageScope,
    dir: string,
    { since = new Map(), signal }: { since?: ReadonlyMap<string, string>; signal?: AbortSignal | undefined } = {},
  ): Promise<DatabaseInstant[]> {
    this.#assertState('closed', 'storage.capture')
    signal?.throwIfAborted()
    const instants = await this.#pages.capture(this.#present(scope), { since, dir, signal })
    this.#releaseMemory(scope)
    return instants
  }

  /**
   * Copies any other SQLite file, page by page, as of one moment. Nothing of its schema runs. Its WAL stays where it is, and
   * SQLite may put a `-shm` beside it; a transaction that a dead process left half done is undone first, as the next program
   * to open it would.
   *
   * @throws NotADatabaseError (code `UNSUPPORTED`) when the file, or what lies beside it, isn't SQLite's: nothing was
   * touched, copy it as a plain file. NexusError `PRECONDITION` when the destination exists, or a link leads to the file; `NOT_FOUND`, `CORRUPT`,
   * `LOCKED`, `LOCAL_IO`, `PERMISSION`, `UNAVAILABLE`, `CLOSED`; the reason of `signal`
   */
  async snapshotForeign(
    livePath: string,
    destPath: string,
    { signal }: { signal?: AbortSignal | undefined } = {},
  ): Promise<ForeignSnapshot> {
    this.#assertState('closed', 'storage.snapshotForeign')
    signal?.throwIfAborted()
    return snapshotForeign(this.#copier, this.#placeOf(livePath), destPath, signal)
  }

  /**
   * Closes every handle. Uncommitted transactions roll back; {@link snapshot}, {@link snapshotForeign} and
   * {@link checkpoint} go on working, {@link open} doesn't.
   */
  closeAll(): Promise<void> {
    return (this.#closing ??= this.#closeHandles())
  }

  /** Closes every handle; a copy that was running rejects. Afterwards every call throws `CLOSED`. */
  dispose(): Promise<void> {
    return (this.#disposing ??= this.#end())
  }

  async #closeHandles(): Promise<void> {
    if (this.#state === 'open') this.#state = 'closed'
    this.#watch.stop()
    // The last connection to close moves the whole WAL into the file, on this thread: empty large ones in a worker first.
    await this.#drainWals(CLOSE_INLINE_WAL_BYTES)
    for (const known of this.#known.values()) this.#close(known)
  }

  #close(known: Known): void {
    const { pluginId, place, storage } = known
    const fields = { pluginId, path: place.path }
    const lost = this.#lostOrUnknown(known)
    if (lost?.isReplaced) {
      storage.abandon()
      this.#opening.logger.warn(fields, `a database stays open until the process ends: ${lost.why}`)
    } else if (!storage.close()) {
      this.#opening.logger.warn(fields, 'a database could not be closed: the plugin left an iterator open')
    }
  }

  #lostOrUnknown(known: Known): LostContent | undefined {
    try {
      return this.#lost(known)
    } catch {
      // Nothing could be looked at: most likely nothing was replaced.
      return undefined
    }
  }

  async #end(): Promise<void> {
    this.#state = 'disposed'
    this.#copier.cancelAll()
    const pinned = [...this.#known.values()].filter(({ place }) => this.#pages.isPinned(place.path))
    const outliving = new Set(this.#closing === undefined ? [] : pinned)
    await this.#pages.close()
    await this.closeAll()
    // A pin only reads: where it was the last to let go, WAL and -shm are still there.
    await this.#drain((known) => outliving.has(known))
    await this.#copier.close()
  }

  #assertState(needed: 'open' | 'closed', op: string): void {
    if (this.#state === 'open' || this.#state === needed) return
    const why = this.#state === 'disposed' ? 'was disposed' : 'has closed its handles'
    throw new NexusError('CLOSED', `The storage manager ${why}`, { op })
  }

  /**
   * What a handle has cached is cheap to read again, and most handles rest between two turns. SQLite never gives it back by
   * itself: a thousand small databases would hold 80 MiB of pages.
   */
  #releaseMemory(scope?: StorageScope): void {
    for (const { storage } of scope === undefined ? this.#known.values() : this.#of(scope)) storage.releaseMemory()
  }

  #of(scope: StorageScope): Known[] {
    const effective = effectiveScope(scope, this.#options)
    return [...this.#known.values()]
      .filter((known) => known.scope === effective)
      .toSorted((a, b) => (a.pluginId < b.pluginId ? -1 : 1))
  }

  #present(scope: StorageScope): Known[] {
    return this.#of(scope).filter((known) => {
      const lost = this.#lost(known)
      if (lost === undefined) return true
      const fields = { pluginId: known.pluginId, path: known.place.path }
      this.#opening.logger.warn(fields, `the content of an open database is lost: ${lost.why}. It is left out`)
      return false
    })
  }

  #lost(known: Known): LostContent | undefined {
    const { place, storage, file, hasHeldBytes } = known
    const lost = lostContent(place, { identity: storage.wasClosedByPlugin ? undefined : file, hasHeldBytes })
    known.hasHeldBytes ||= lost === undefined && fileSizeBytes(place.path) > 0
    return lost
  }

  // A file of the session is reached without following a link; of any other only its directory is known to be meant.
  #placeOf(livePath: string): Place {
    const path = resolve(livePath)
    const session = resolve(this.#options.sessionDir)
    return { root: path.startsWith(session + sep) ? session : dirname(path), path }
  }

  async #checkpoint(databases: readonly PluginDatabase[]): Promise<CheckpointResult[]> {
    const results = await checkpointDatabases(this.#copier, databases)
    for (const result of results) this.#watch.report(result)
    return results
  }

  #drainWals(largerThanBytes: number): Promise<void> {
    // What a pin keeps, its owner looks after.
    return this.#drain(
      ({ place: { path } }) => !this.#pages.isPinned(path) && fileSizeBytes(`${path}-wal`) > largerThanBytes,
    )
  }

  async #drain(which: (known: Known) => boolean): Promise<void> {
    try {
      const chosen = [...this.#known.values()].filter((known) => which(known) && this.#lost(known) === undefined)
      await this.#checkpoint(chosen)
    } catch (error) {
      this.#opening.logger.warn({ err: error }, 'a checkpoint failed: the WAL is kept')
    }
  }
}

/** Makes a manager. It opens nothing and starts no thread by itself. */
export function openStorageManager(options: StorageManagerOptions): StorageManager {
  return new StorageManager(options)
}
