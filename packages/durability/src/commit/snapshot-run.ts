import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import { readSwept } from '@nexus/journal'
import type { ObjectStore } from '@nexus/objectstore'
import {
  type Clock,
  type Failpoint,
  type Logger,
  noFailpoint,
  silentLogger,
  Slices,
  systemClock,
  TreeCursor,
} from '@nexus/host'
import { sessionKeys, type SessionKeys } from '../tree/keys.ts'
import { buildManifest } from '../mirror/manifest-build.ts'
import { totalBytes, type Manifest, type ManifestEntry } from '../mirror/manifest.ts'
import { commitManifest } from '../mirror/snapshot-commit.ts'
import { readClosedJournalSeq } from '../capture/journal-seq.ts'
import { SnapshotListing } from '../mirror/snapshot-listing.ts'
import { SnapshotMemory } from '../capture/memory.ts'
import { copiesOf, type DatabaseCapture } from '../capture/databases.ts'
import { refuseReplacedJournal, stageParts, type StagedParts } from '../capture/stage.ts'
import { BLOBS_DIR, immutableKind, JOURNAL_DIR } from '../tree/names.ts'
import { TreeStorer, type StoredTree } from '../mirror/snapshot-tree.ts'
import type { SnapshotOptions, SnapshotResult } from './snapshot.ts'
import { createStagingDir, fromLocalFailure, removeStagingDir } from '../tree/staging.ts'
import type { WalkedTree } from '../tree/tree-walk.ts'
import { sharedDigester } from '../capture/digester.ts'

/** Failpoints of a snapshot, in the order it passes them; `object-stored` is passed once per object. */
export const SNAPSHOT_FAILPOINTS: readonly string[] = [
  'snapshot:staging-made',
  'snapshot:staged',
  'snapshot:walked',
  'snapshot:listed',
  'snapshot:object-stored',
  'snapshot:before-overwriting',
  'snapshot:objects-stored',
  'snapshot:objects-flushed',
  'snapshot:before-manifest',
  'snapshot:manifest-put',
  'snapshot:manifest-flushed',
  'snapshot:marker-put',
  'snapshot:marker-flushed',
]

const DEFAULT_CONCURRENCY = 16

/** One snapshot on its way; see {@link takeSnapshot}. */
export class SnapshotRun {
  readonly #options: SnapshotOptions
  readonly #store: ObjectStore
  readonly #keys: SessionKeys
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #failpoint: Failpoint
  readonly #memory: SnapshotMemory
  readonly #waiting: { signal?: AbortSignal }
  readonly #slices: Slices

  constructor(options: SnapshotOptions) {
    this.#options = options
    this.#store = options.store
    this.#keys = sessionKeys(options.sessionId)
    this.#clock = options.clock ?? systemClock
    this.#logger = options.logger ?? silentLogger
    this.#failpoint = options.failpoint ?? noFailpoint
    this.#memory = options.memory ?? new SnapshotMemory()
    this.#waiting = options.signal === undefined ? {} : { signal: options.signal }
    this.#slices = new Slices(this.#waiting)
  }

  async take(): Promise<SnapshotResult> {
    const { sessionsRoot, sessionId, signal } = this.#options
    signal?.throwIfAborted()
    const stagingDir = createStagingDir(sessionsRoot, 'snapshot', sessionId)
    try {
      await this.#failpoint('snapshot:staging-made')
      return await this.#takeWith(stagingDir)
    } catch (error) {
      throw fromLocalFailure(error, 'snapshot')
    } finally {
      await removeStagingDir(stagingDir).catch((error: unknown) => {
        this.#logger.warn(
          { err: error, path: stagingDir },
          'a staging directory could not be removed; a later boot will',
        )
      })
    }
  }

  async #takeWith(stagingDir: string): Promise<SnapshotResult> {
    const cursor = new TreeCursor(this.#options.sessionDir)
    try {
      return await this.#takeFrom(cursor, stagingDir)
    } finally {
      cursor.close()
    }
  }

  async #takeFrom(cursor: TreeCursor, stagingDir: string): Promise<SnapshotResult> {
    const startedMs = performance.now()
    const { storage, committed } = this.#options
    const databases = storage === undefined ? undefined : copiesOf(storage)
    const capture = { cursor, stagingDir, ...(databases === undefined ? {} : { databases }) }
    const listing = this.#openListing()
    const parts = await stageParts({ ...this.#options, ...capture, committed })
    const lastSeq = parts.journal?.lastSeq ?? (await readClosedJournalSeq(join(this.#options.sessionDir, JOURNAL_DIR)))
    this.#refuseLostJournal(lastSeq, cursor)
    await this.#failpoint('snapshot:staged')
    const stored = await this.#storeTree(listing, parts, { cursor, stagingDir, databases })
    this.#tell(stored.tree)
    await this.#failpoint('snapshot:objects-stored')
    await this.#store.flush(this.#waiting)
    await this.#failpoint('snapshot:objects-flushed')
    const manifest = await this.#manifestOf(stored, lastSeq, stagingDir)
    const manifestBytes = await commitManifest(manifest, {
      ...this.#options,
      stagingDir,
      failpoint: this.#failpoint,
      slices: this.#slices,
    })
    this.#memory.noteCommit()
    return resultOf(manifest, stored, { manifestBytes, parts, durationMs: performance.now() - startedMs })
  }

  // The store is asked while the journal and the databases are copied. What is found to be there only later, is asked then.
  #openListing(): SnapshotListing {
    const { committed } = this.#options
    const logger = this.#logger
    const listing = new SnapshotListing({ store: this.#store, treeKey: this.#keys.tree, logger, ...this.#waiting })
    const objects = committed?.objects ?? []
    if (objects.some((path) => path.startsWith(`${BLOBS_DIR}/`))) listing.ask(BLOBS_DIR)
    if (objects.some((path) => immutableKind(path) === 'segment')) listing.ask(JOURNAL_DIR)
    return listing
  }

  async #storeTree(
    listing: SnapshotListing,
    parts: StagedParts,
    capture: { cursor: TreeCursor; stagingDir: string; databases: DatabaseCapture | undefined },
  ): Promise<StoredTree> {
    const { committed, concurrency = DEFAULT_CONCURRENCY } = this.#options
    const storer = new TreeStorer({
      ...capture,
      store: this.#store,
      treeKey: this.#keys.tree,
      committed,
      concurrency,
      listing,
      logger: this.#logger,
      memory: this.#memory,
      digester: sharedDigester(),
      slices: this.#slices,
      failpoint: this.#failpoint,
      ...this.#waiting,
    })
    return storer.store(parts)
  }

  #tell({ unstorable, specials }: WalkedTree): void {
    const session = { session_id: this.#options.sessionId }
    for (const { path, why } of unstorable) {
      if (this.#memory.isNews(`${path}: ${why}`))
        this.#logger.warn({ ...session, path, why }, 'a file can not be stored')
    }
    for (const path of specials) {
      if (this.#memory.isNews(`special ${path}`)) {
        this.#logger.warn({ ...session, path }, 'a socket, FIFO or device has nothing to store and is left out')
      }
    }
  }

  /**
   * Refuses to commit a session whose journal was removed or emptied, while it was closed or under its writer, over one that
   * has it.
   */
  #refuseLostJournal(lastSeq: number, cursor: TreeCursor): void {
    const { sessionId, sessionDir, committed } = this.#options
    if (committed === undefined || committed.journal.last_seq === 0) return
    if (lastSeq > 0) return refuseReplacedJournal(cursor)
    throw new NexusError(
      'CORRUPT',
      `session ${sessionId}: its journal is gone, and the committed one ends at event ${committed.journal.last_seq}; not storing ` +
        'over it. Boot the session again to restore the committed tree',
      { op: 'snapshot', key: join(sessionDir, JOURNAL_DIR) },
    )
  }

  async #manifestOf({ tree, entries, sizes }: StoredTree, lastSeq: number, stagingDir: string): Promise<Manifest> {
    const { sessionId, generation, nonce, instanceId, mixedFrom, committed } = this.#options
    return buildManifest({
      sessionId,
      generation,
      nonce,
      instanceId,
      completedAt: new Date(this.#clock.now()).toISOString(),
      keyPrefix: this.#keys.tree,
      tree,
      stored: entries,
      lastSeq,
      swept: new Set(
        readSwept(join(this.#options.sessionDir, JOURNAL_DIR)).map(({ name }) => `${JOURNAL_DIR}/${name}`),
      ),
      carry: (path) => this.#carry(path, sizes, stagingDir),
      slices: this.#slices,
      ...(mixedFrom === undefined ? {} : { mixedFrom }),
      ...(committed === undefined ? {} : { committed }),
    })
  }

  /** The entry of an object that only the committed generation names, unless the store says that it lost it. */
  async #carry(path: string, sizes: StoredTree['sizes'], stagingDir: string): Promise<ManifestEntry | undefined> {
    const known = this.#options.committed?.entries[path]
    // After a snapshot that failed the store may hold a later version of it than the committed one.
    const isCertain = known !== undefined && !this.#memory.isUnsettled(path)
    const entry = isCertain ? known : ((await this.#adopt(path, stagingDir)) ?? known)
    const isListed = path.startsWith(`${BLOBS_DIR}/`) && sizes !== undefined
    if (entry === undefined || (isListed && sizes.get(path) !== entry.size)) {
      this.#logger.warn(
        { session_id: this.#options.sessionId, path },
        'the store does not hold a committed object any more',
      )
      return undefined
    }
    return entry
  }

  /** The entry of an object as it is in the store: where no manifest describes it, or not what is there now. */
  async #adopt(path: string, stagingDir: string): Promise<ManifestEntry | undefined> {
    if (!this.#store.capabilities.get) return undefined
    const localPath = join(stagingDir, 'adopted')
    try {
      await this.#store.get(`${this.#keys.tree}/${path}`, localPath, this.#waiting)
    } catch (error) {
      if (isNexusError(error, 'NOT_FOUND')) return undefined
      throw error
    }
    const { size } = lstatSync(localPath)
    const { sha256 } = await sharedDigester().digest(localPath, { sizeHint: size, slices: this.#slices })
    return { size, mode: 0o600, mtime_ns: String(BigInt(this.#clock.now()) * 1_000_000n), sha256 }
  }
}

function resultOf(
  manifest: Manifest,
  stored: StoredTree,
  { manifestBytes, parts, durationMs }: { manifestBytes: number; parts: StagedParts; durationMs: number },
): SnapshotResult {
  const objects = manifest.objects.length
  const bytes = totalBytes(manifest)
  const uploaded = [...stored.uploaded].filter(([path]) => manifest.entries[path] !== undefined)
  const bytesUploaded = uploaded.reduce((sum, [, size]) => sum + size, 0)
  return {
    manifest,
    objects,
    bytes,
    objectsUploaded: uploaded.length,
    bytesUploaded,
    objectsSkipped: objects - uploaded.length,
    bytesSkipped: bytes - bytesUploaded,
    dbBytes: parts.dbBytes,
    dbDurationMs: parts.dbDurationMs,
    manifestBytes,
    unstored: manifest.unstored,
    durationMs,
  }
}
