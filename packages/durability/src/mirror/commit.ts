import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { readSwept } from '@nexus/journal'
import { isObjectNotFound, type ObjectStore } from '@nexus/objectstore'
import { type Clock, type Failpoint, type Logger, sharedDigester, forEachSliced } from '@nexus/host'
import type { StagedParts } from '../capture/stage.ts'
import type { CapturedTree, CommitFence, LayoutCommit } from '../layout/layout.ts'
import { sessionKeys } from '../tree/keys.ts'
import { BLOBS_DIR, immutableKind, JOURNAL_DIR } from '../tree/names.ts'
import type { WalkedTree } from '../tree/tree-walk.ts'
import { buildManifest } from './manifest/build.ts'
import { totalBytes } from '../tree/committed.ts'
import type { Manifest, ManifestEntry } from './manifest/manifest.ts'
import { commitManifest } from './publish.ts'
import { SnapshotListing } from './listing.ts'
import { TreeStorer, type StoredTree } from './store-tree.ts'

/** What a commit of the mirror layout works with. */
export interface MirrorContext {
  store: ObjectStore
  sessionId: string
  clock: Clock
  logger: Logger
  failpoint: Failpoint
}

/** One commit on its way: uploads what the store doesn't hold, then the manifest that says what belongs together. */
export class MirrorCommit {
  readonly #context: MirrorContext
  readonly #captured: CapturedTree
  readonly #fence: CommitFence
  readonly #treeKey: string
  readonly #signal: AbortSignal | undefined

  constructor(context: MirrorContext, captured: CapturedTree, fence: CommitFence) {
    this.#context = context
    this.#captured = captured
    this.#fence = fence
    this.#treeKey = sessionKeys(context.sessionId).tree
    this.#signal = fence.signal
  }

  async run(): Promise<LayoutCommit> {
    const { store, failpoint } = this.#context
    const { memory, slices, stagingDir, sequence, trigger, turnId } = this.#captured
    // The store is asked while the journal and the databases are copied.
    const listing = this.#openListing()
    const parts = await this.#captured.parts
    await failpoint('snapshot:staged')
    const stored = await this.#storer(listing).store(parts)
    this.#tell(stored.tree)
    await failpoint('snapshot:objects-stored')
    await store.flush({ signal: this.#signal })
    await failpoint('snapshot:objects-flushed')
    const manifest = await this.#manifestOf(stored, parts)
    const { beforeCommit, confirm } = this.#fence
    const manifestBytes = await commitManifest(manifest, {
      signal: this.#signal,
      store,
      sequence,
      trigger,
      turnId,
      beforeCommit,
      confirm,
      stagingDir,
      failpoint,
      slices,
    })
    memory.noteCommit()
    const uploaded = { objects: 0, bytes: 0 }
    await forEachSliced(stored.uploaded, slices, ([path, size]) => {
      if (manifest.entries[path] === undefined) return
      uploaded.objects++
      uploaded.bytes += size
    })
    return {
      committed: manifest,
      objects: manifest.objects.length,
      bytes: await totalBytes(manifest, slices),
      objectsUploaded: uploaded.objects,
      bytesUploaded: uploaded.bytes,
      manifestBytes,
    }
  }

  // What is found to be in the tree only later is asked for then.
  #openListing(): SnapshotListing {
    const { store, logger } = this.#context
    const listing = new SnapshotListing({ store, treeKey: this.#treeKey, logger, signal: this.#signal })
    const objects = this.#captured.committed?.objects ?? []
    if (objects.some((path) => path.startsWith(`${BLOBS_DIR}/`))) listing.ask(BLOBS_DIR)
    if (objects.some((path) => immutableKind(path) === 'segment')) listing.ask(JOURNAL_DIR)
    return listing
  }

  #storer(listing: SnapshotListing): TreeStorer {
    const { cursor, stagingDir, committed, databases, memory, slices, concurrency } = this.#captured
    return new TreeStorer({
      ...this.#context,
      signal: this.#signal,
      cursor,
      stagingDir,
      committed,
      databases,
      memory,
      slices,
      concurrency,
      listing,
      treeKey: this.#treeKey,
      digester: sharedDigester(this.#context.logger),
      confirm: this.#fence.confirm,
    })
  }

  #tell({ unstorable, specials }: WalkedTree): void {
    const session = { session_id: this.#context.sessionId }
    for (const { path, why } of unstorable) {
      if (this.#captured.memory.isNews(`${path}: ${why}`))
        this.#context.logger.warn({ ...session, path, why }, 'a file can not be stored')
    }
    for (const path of specials) {
      if (this.#captured.memory.isNews(`special ${path}`)) {
        this.#context.logger.warn({ ...session, path }, 'a socket, FIFO or device has nothing to store and is left out')
      }
    }
  }

  #manifestOf({ tree, entries, sizes }: StoredTree, { lastSeq }: StagedParts): Promise<Manifest> {
    const { sessionId, clock } = this.#context
    const { generation, nonce, instanceId, mixedFrom, committed, sessionDir, slices } = this.#captured
    return buildManifest({
      sessionId,
      generation,
      nonce,
      instanceId,
      completedAt: new Date(clock.now()).toISOString(),
      keyPrefix: this.#treeKey,
      tree,
      stored: entries,
      lastSeq,
      swept: new Set(readSwept(join(sessionDir, JOURNAL_DIR)).map(({ name }) => `${JOURNAL_DIR}/${name}`)),
      carry: (path) => this.#carry(path, sizes),
      slices,
      mixedFrom,
      committed,
    })
  }

  /** The entry of an object that only the committed generation names, unless the store says that it lost it. */
  async #carry(path: string, sizes: StoredTree['sizes']): Promise<ManifestEntry | undefined> {
    const known = this.#captured.committed?.entries[path]
    // After a snapshot that failed the store may hold a later version of it than the committed one.
    const isCertain = known !== undefined && !this.#captured.memory.isUnsettled(path)
    const entry = isCertain ? known : ((await this.#adopt(path)) ?? known)
    const isListed = path.startsWith(`${BLOBS_DIR}/`) && sizes !== undefined
    if (entry === undefined || (isListed && sizes.get(path) !== entry.size)) {
      this.#context.logger.warn(
        { session_id: this.#context.sessionId, path },
        'the store does not hold a committed object any more',
      )
      return undefined
    }
    return entry
  }

  /** The entry of an object as it is in the store: where no manifest describes it, or not what is there now. */
  async #adopt(path: string): Promise<ManifestEntry | undefined> {
    if (!this.#context.store.capabilities.get) return undefined
    const localPath = join(this.#captured.stagingDir, 'adopted')
    try {
      await this.#context.store.get(`${this.#treeKey}/${path}`, localPath, { signal: this.#signal })
    } catch (error) {
      if (isObjectNotFound(error)) return undefined
      throw error
    }
    const { size } = lstatSync(localPath)
    const { sha256 } = await sharedDigester(this.#context.logger).digest(localPath, {
      sizeHint: size,
      slices: this.#captured.slices,
    })
    return { size, mode: 0o600, mtime_ns: String(BigInt(this.#context.clock.now()) * 1_000_000n), sha256 }
  }
}
