import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import { type JournalWriter, readSwept } from '@nexus/journal'
import type { ObjectStore } from '@nexus/objectstore'
import type { StorageManager } from '@nexus/storage'
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
import { readClosedJournalSeq } from '../capture/journal-seq.ts'
import { SnapshotMemory } from '../capture/memory.ts'
import { copiesOf } from '../capture/databases.ts'
import { refuseReplacedJournal, stageParts, type StagedParts } from '../capture/stage.ts'
import { BLOBS_DIR, immutableKind, JOURNAL_DIR } from '../tree/names.ts'
import { sharedDigester } from '../capture/digester.ts'
import { buildManifest } from '../mirror/manifest-build.ts'
import { totalBytes, type Manifest, type ManifestEntry, type MixedFrom } from '../mirror/manifest.ts'
import { commitManifest } from '../mirror/snapshot-commit.ts'
import { SnapshotListing } from '../mirror/snapshot-listing.ts'
import { TreeStorer, type StoredTree, type TreeStorerOptions } from '../mirror/snapshot-tree.ts'
import { sessionKeys, type SessionKeys } from '../tree/keys.ts'
import { createStagingDir, fromLocalFailure, removeStagingDir } from '../tree/staging.ts'
import type { WalkedTree } from '../tree/tree-walk.ts'
import { holdsNothingNew } from './nothing-new.ts'

/** What names a commit: no two commits share both. */
export interface CommitPair {
  generation: number
  nonce: string
}

/** What asked for a snapshot. */
export type SnapshotTrigger = 'turn' | 'request' | 'shutdown' | 'retry'

export interface SnapshotOptions {
  store: ObjectStore
  sessionId: string
  /** Absolute path of the session tree. */
  sessionDir: string
  /** Its parent, where the staging directory goes. */
  sessionsRoot: string
  /** The open journal. Absent once it is closed (final snapshot): its files are then taken as they are. */
  journal?: JournalWriter
  /** Copies databases, also after its `closeAll()`. */
  storage?: StorageManager
  /** The manifest the store holds now, as just read. Absent for a first snapshot. */
  committed?: Manifest
  /** Keep one per run and session; see {@link SnapshotMemory}. */
  memory?: SnapshotMemory
  generation: number
  nonce: string
  instanceId: string
  /** Counts the snapshots of this run from 1. */
  sequence: number
  trigger: SnapshotTrigger
  turnId?: string
  mixedFrom?: MixedFrom
  /** Called when everything but the manifest is durable; the manifest is put only after it resolved. */
  beforeCommit: (pair: CommitPair) => Promise<void>
  /** Store nothing when the tree holds nothing that the committed one lacks but the words of its own end. */
  onlyIfNew?: boolean
  /**
   * Asked before each put that replaces something of the committed generation: rejects when another host has committed
   * since. May go by a look that is younger than `ageMs`. Default: passes.
   */
  confirm?: (ageMs: number) => Promise<void>
  signal?: AbortSignal
  clock?: Clock
  logger?: Logger
  failpoint?: Failpoint
  /** Uploads in flight, default 16. */
  concurrency?: number
}

/** What one committed snapshot stored and what it cost. */
export interface SnapshotResult {
  /** What was committed. */
  manifest: Manifest
  /** Objects and bytes of the committed set. */
  objects: number
  bytes: number
  /** What this snapshot moved, the manifest and marker left out. */
  objectsUploaded: number
  bytesUploaded: number
  /** What the store held already. */
  objectsSkipped: number
  bytesSkipped: number
  dbBytes: number
  dbDurationMs: number
  manifestBytes: number
  /** Paths that could not be stored: unreadable, or no possible key. The committed version, if any, stays named. */
  unstored: string[]
  durationMs: number
}

/**
 * Stores the session tree as one new generation. Rejects when the store fails or the signal fires, with the committed
 * generation still named by the manifest; a local file that can't be stored is listed in `unstored` instead.
 *
 * @see docs/concepts/durability.md
 */
export async function takeSnapshot(options: SnapshotOptions): Promise<SnapshotResult> {
  const { sessionsRoot, sessionId, signal, logger = silentLogger } = options
  signal?.throwIfAborted()
  const cursor = new TreeCursor(options.sessionDir)
  const run = new SnapshotRun(options, cursor)
  const stagingDir = createStagingDir(sessionsRoot, 'snapshot', sessionId)
  try {
    return await run.take(stagingDir)
  } catch (error) {
    throw fromLocalFailure(error, 'snapshot')
  } finally {
    cursor.close()
    await removeStagingDir(stagingDir).catch((error: unknown) => {
      logger.warn({ err: error, path: stagingDir }, 'a staging directory could not be removed; a later boot will')
    })
  }
}

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
class SnapshotRun {
  readonly #options: SnapshotOptions
  readonly #cursor: TreeCursor
  #stagingDir = ''
  readonly #store: ObjectStore
  readonly #keys: SessionKeys
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #failpoint: Failpoint
  readonly #memory: SnapshotMemory
  readonly #waiting: { signal?: AbortSignal }
  readonly #slices: Slices

  constructor(options: SnapshotOptions, cursor: TreeCursor) {
    this.#options = options
    this.#cursor = cursor
    this.#store = options.store
    this.#keys = sessionKeys(options.sessionId)
    this.#clock = options.clock ?? systemClock
    this.#logger = options.logger ?? silentLogger
    this.#failpoint = options.failpoint ?? noFailpoint
    this.#memory = options.memory ?? new SnapshotMemory()
    this.#waiting = options.signal === undefined ? {} : { signal: options.signal }
    this.#slices = new Slices(this.#waiting)
  }

  async take(stagingDir: string): Promise<SnapshotResult> {
    this.#stagingDir = stagingDir
    await this.#failpoint('snapshot:staging-made')
    const startedMs = performance.now()
    const listing = this.#openListing()
    const { storage, committed } = this.#options
    const capture = {
      cursor: this.#cursor,
      stagingDir,
      committed,
      databases: storage === undefined ? undefined : copiesOf(storage),
    }
    const parts = await stageParts({ ...this.#options, ...capture })
    const lastSeq = parts.journal?.lastSeq ?? (await readClosedJournalSeq(join(this.#options.sessionDir, JOURNAL_DIR)))
    this.#refuseLostJournal(lastSeq)
    if (committed !== undefined && this.#options.onlyIfNew === true) {
      const files = { cursor: this.#cursor, staged: parts.files }
      const closing = { ...files, committed, digester: sharedDigester(this.#logger), slices: this.#slices }
      if (await holdsNothingNew(closing)) return unchangedResult(committed, parts, performance.now() - startedMs)
    }
    await this.#failpoint('snapshot:staged')
    const stored = await this.#storer(listing, capture).store(parts)
    this.#tell(stored.tree)
    await this.#failpoint('snapshot:objects-stored')
    await this.#store.flush(this.#waiting)
    await this.#failpoint('snapshot:objects-flushed')
    const manifest = await this.#manifestOf(stored, lastSeq)
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

  #storer(
    listing: SnapshotListing,
    capture: Pick<TreeStorerOptions, 'cursor' | 'stagingDir' | 'committed' | 'databases'>,
  ): TreeStorer {
    const { concurrency = DEFAULT_CONCURRENCY } = this.#options
    return new TreeStorer({
      ...this.#options,
      ...capture,
      concurrency,
      listing,
      treeKey: this.#keys.tree,
      logger: this.#logger,
      memory: this.#memory,
      digester: sharedDigester(this.#logger),
      slices: this.#slices,
      failpoint: this.#failpoint,
    })
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
  #refuseLostJournal(lastSeq: number): void {
    const { sessionId, sessionDir, committed } = this.#options
    if (committed === undefined || committed.journal.last_seq === 0) return
    if (lastSeq > 0) return refuseReplacedJournal(this.#cursor)
    throw new NexusError(
      'CORRUPT',
      `session ${sessionId}: its journal is gone, and the committed one ends at event ${committed.journal.last_seq}; not storing ` +
        'over it. Boot the session again to restore the committed tree',
      { op: 'snapshot', key: join(sessionDir, JOURNAL_DIR) },
    )
  }

  async #manifestOf({ tree, entries, sizes }: StoredTree, lastSeq: number): Promise<Manifest> {
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
      carry: (path) => this.#carry(path, sizes),
      slices: this.#slices,
      ...(mixedFrom === undefined ? {} : { mixedFrom }),
      ...(committed === undefined ? {} : { committed }),
    })
  }

  /** The entry of an object that only the committed generation names, unless the store says that it lost it. */
  async #carry(path: string, sizes: StoredTree['sizes']): Promise<ManifestEntry | undefined> {
    const known = this.#options.committed?.entries[path]
    // After a snapshot that failed the store may hold a later version of it than the committed one.
    const isCertain = known !== undefined && !this.#memory.isUnsettled(path)
    const entry = isCertain ? known : ((await this.#adopt(path)) ?? known)
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
  async #adopt(path: string): Promise<ManifestEntry | undefined> {
    if (!this.#store.capabilities.get) return undefined
    const localPath = join(this.#stagingDir, 'adopted')
    try {
      await this.#store.get(`${this.#keys.tree}/${path}`, localPath, this.#waiting)
    } catch (error) {
      if (isNexusError(error, 'NOT_FOUND')) return undefined
      throw error
    }
    const { size } = lstatSync(localPath)
    const { sha256 } = await sharedDigester(this.#logger).digest(localPath, { sizeHint: size, slices: this.#slices })
    return { size, mode: 0o600, mtime_ns: String(BigInt(this.#clock.now()) * 1_000_000n), sha256 }
  }
}

function unchangedResult(manifest: Manifest, parts: StagedParts, durationMs: number): SnapshotResult {
  const nothing: StoredTree['uploaded'] = new Map()
  return { ...resultOf(manifest, { uploaded: nothing }, { manifestBytes: 0, parts, durationMs }), unstored: [] }
}

function resultOf(
  manifest: Manifest,
  stored: Pick<StoredTree, 'uploaded'>,
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
