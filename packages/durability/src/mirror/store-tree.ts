import { forEachBounded, type ObjectStore } from '@nexus/objectstore'
import type { DatabaseCapture } from '../capture/databases.ts'
import {
  type Failpoint,
  type Logger,
  type Slices,
  type TreeCursor,
  type FileDigester,
  forEachSliced,
} from '@nexus/host'
import type { Committed } from '../tree/committed.ts'
import type { ManifestEntry } from './manifest/manifest.ts'
import { ForeignDatabases } from '../capture/foreign.ts'
import { CONFIRM_AGE_MS } from './publish.ts'
import type { SnapshotListing, StoredSizes } from './listing.ts'
import type { SnapshotMemory } from '../capture/memory.ts'
import { OVERWRITING_RANK, planObjects, type PlannedObject, RANK_GROUPS } from '../capture/plan.ts'
import { setAsideReplaced } from '../capture/replaced-places.ts'
import { inodeAt, type StagedFile, type StagedParts } from '../capture/stage.ts'
import { ACTIVE_SEGMENT_PATH, blobDigest, BLOBS_DIR, type ImmutableKind, JOURNAL_DIR } from '../tree/names.ts'
import type { FileStat } from '../tree/tree-stat.ts'
import { TreeWalker, type Unstorable, type WalkedTree } from '../tree/tree-walk.ts'
import { Uploader, type UploadOutcome } from './upload.ts'

export interface TreeStorerOptions {
  store: ObjectStore
  /** Key prefix of the tree. */
  treeKey: string
  cursor: TreeCursor
  stagingDir: string
  databases: DatabaseCapture | undefined
  committed: Committed | undefined
  memory: SnapshotMemory
  listing: SnapshotListing
  logger: Logger
  digester: FileDigester
  slices: Slices
  concurrency: number
  signal?: AbortSignal | undefined
  failpoint: Failpoint
  /** Asked before anything of the committed generation is overwritten. */
  confirm?: (ageMs: number) => Promise<void>
}

/** What the store holds of the tree now. */
export interface StoredTree {
  /** With all that could not be stored in `unstorable`. */
  tree: WalkedTree
  entries: ReadonlyMap<string, ManifestEntry>
  /** Objects that were moved: bytes by path. */
  uploaded: ReadonlyMap<string, number>
  /** What the store was asked for. */
  sizes: StoredSizes
}

// What every store that we know can hold: S3 and GCS stop at 1024 bytes.
const MAX_KEY_BYTES = 1024
/** How often the tree is looked at because something in it was gone when its turn came. */
const MAX_ROUNDS = 3

/** Brings one session tree to the store: walks it, skips what the store holds, uploads the rest in a safe order. */
export class TreeStorer {
  readonly #options: TreeStorerOptions
  readonly #stored = new Map<string, ManifestEntry>()
  readonly #uploaded = new Map<string, number>()
  readonly #unstorable = new Map<string, Unstorable>()
  readonly #databases = new Set<string>()
  #sizes: StoredSizes

  constructor(options: TreeStorerOptions) {
    this.#options = options
  }

  /** Looks again when something was gone when its turn came: it may be there under another name. */
  async store(parts: StagedParts): Promise<StoredTree> {
    const { store, treeKey, stagingDir, cursor, digester, slices, committed, failpoint } = this.#options
    const walker = new TreeWalker(cursor, { maxPathBytes: MAX_KEY_BYTES - treeKey.length - 1, slices })
    const foreign = new ForeignDatabases(this.#options)
    const uploader = new Uploader({ store, keyPrefix: treeKey, cursor, stagingDir, digester, slices })
    try {
      let tree = await walker.walk()
      await failpoint('snapshot:walked')
      for (let round = 1; ; round++) {
        setAsideReplaced(tree, { committed, staged: parts.files, lost: parts.lostDatabases, cursor })
        const copies = await foreign.extract(tree, parts.files, this.#databases)
        const plan = await this.#plan(tree, parts, copies)
        const settled = await this.#storePlanned(plan, uploader)
        if (settled || round === MAX_ROUNDS) {
          await this.#settle(tree, plan)
          return { tree, entries: this.#stored, uploaded: this.#uploaded, sizes: this.#sizes }
        }
        tree = await walker.lookAgain()
      }
    } finally {
      uploader.close()
    }
  }

  #plan(tree: WalkedTree, parts: StagedParts, copies: ReadonlyMap<string, StagedFile>): Promise<PlannedObject[]> {
    const { committed, slices } = this.#options
    const staged = new Map([...parts.files, ...copies])
    // A commit of an older build has no entries.
    const [first] = committed?.objects ?? []
    const isBare = first !== undefined && committed?.entries[first] === undefined
    const named = isBare ? new Set(committed?.objects) : undefined
    const sources = {
      tree,
      staged,
      isDatabase: (path: string) => path !== ACTIVE_SEGMENT_PATH,
      sealed: parts.journal?.sealed,
      committedEntry: (path: string) => committed?.entries[path],
      isCommitted: (path: string) => named?.has(path) ?? committed?.entries[path] !== undefined,
    }
    return planObjects(sources, slices)
  }

  /** @returns false when something was gone and the tree must be looked at again */
  async #storePlanned(plan: readonly PlannedObject[], uploader: Uploader): Promise<boolean> {
    const { concurrency, signal, listing, failpoint, slices, confirm } = this.#options
    const open: PlannedObject[] = []
    await forEachSliced(plan, slices, (object) => {
      if (this.#stored.has(object.path) || this.#unstorable.has(object.path)) return
      open.push(object)
      if (object.kind !== undefined) listing.ask(object.kind === 'segment' ? JOURNAL_DIR : BLOBS_DIR)
    })
    this.#sizes = await listing.sizes()
    await failpoint('snapshot:listed')
    const todo: PlannedObject[] = []
    await forEachSliced(open, slices, (object) => void (this.#skipAtSight(object) || todo.push(object)))
    let settled = true
    const store = async (object: PlannedObject, _index: number, laneSignal: AbortSignal): Promise<void> => {
      if (slices.due) await slices.pause()
      // What is new here may be what another host has committed meanwhile.
      await confirm?.(CONFIRM_AGE_MS)
      if (!(await this.#storeOne(object, uploader, laneSignal))) settled = false
      // Awaited only where it waits: this runs once per object.
      const pause = failpoint('snapshot:object-stored')
      if (pause !== undefined) await pause
    }
    for (const [nth, ranks] of RANK_GROUPS.entries()) {
      // Not before all the rest is there: a snapshot that dies until here has taken nothing from the committed generation.
      if (nth === 1) await failpoint('snapshot:before-overwriting')
      if (nth === 1 && todo.some(({ rank }) => rank >= OVERWRITING_RANK)) await confirm?.(0)
      const group = todo.filter(({ rank }) => ranks.includes(rank))
      await forEachBounded(group, concurrency, store, signal)
    }
    return settled
  }

  /** Skips an immutable object when what is known by now says that the store holds it. */
  #skipAtSight({ path, stat, kind }: PlannedObject): boolean {
    if (kind === undefined || stat === undefined) return false
    return this.#skip(path, kind, stat, this.#options.memory.digestOf(path, stat))
  }

  /**
   * Whether the store holds exactly this. A blob says its own digest, so that the size decides; a segment's number and a
   * blob's metadata can be used again after a rewind, a prune or an eviction, and must be what the committed generation has.
   */
  #skip(path: string, kind: ImmutableKind, stat: FileStat, sha256: string | undefined): boolean {
    if (this.#sizes?.get(path) !== stat.size) return false
    const committed = this.#options.committed?.entries[path]
    let held: string | undefined
    if (kind === 'blob') held = committed?.size === stat.size ? committed.sha256 : blobDigest(path)
    else if (committed?.size === stat.size && committed.sha256 === sha256 && !this.#options.memory.isUnsettled(path))
      held = sha256
    if (held === undefined) return false
    this.#stored.set(path, {
      size: stat.size,
      mode: stat.mode & 0o777,
      mtime_ns: String(stat.mtimeNs),
      sha256: held,
    })
    return true
  }

  /** @returns false when the file was gone */
  async #storeOne(object: PlannedObject, uploader: Uploader, signal: AbortSignal): Promise<boolean> {
    const { path, stat, staged, kind } = object
    if (stat !== undefined && kind !== undefined && kind !== 'blob') {
      const sha256 = await uploader.digestOf(path, stat, signal)
      if (sha256 !== undefined) this.#options.memory.remember(path, stat, sha256)
      if (this.#skip(path, kind, stat, sha256)) return true
    }
    const { memory } = this.#options
    const wasUnsettled = memory.isUnsettled(path)
    memory.noteUpload(path)
    const outcome =
      staged === undefined
        ? await uploader.putLive(path, signal, blobDigest(path))
        : await uploader.putStaged(staged, signal)
    if (outcome.kind === 'unstorable' && !wasUnsettled) memory.noteNothingStored(path)
    return this.#note(object, outcome)
  }

  #note({ path, kind }: PlannedObject, outcome: UploadOutcome): boolean {
    if (outcome.kind === 'stored') {
      const { entry } = outcome
      const named = kind === 'blob' ? blobDigest(path) : undefined
      if (named !== undefined && named !== entry.sha256 && this.#options.memory.isNews(`blob ${path}`)) {
        this.#options.logger.warn(
          { path, sha256: entry.sha256 },
          'a blob does not hold what its name says; stored as it is',
        )
      }
      this.#stored.set(path, entry)
      this.#uploaded.set(path, entry.size)
      return true
    }
    if (outcome.kind === 'unstorable') {
      this.#unstorable.set(path, { path, why: outcome.why, tree: false })
      return true
    }
    if (outcome.kind === 'database') this.#databases.add(path)
    return false
  }

  /** What could not be stored is listed, what vanished for good is left out. */
  async #settle(tree: WalkedTree, plan: readonly PlannedObject[]): Promise<void> {
    const { cursor, slices } = this.#options
    const planned = new Set<string>()
    await forEachSliced(plan, slices, ({ path }) => {
      planned.add(path)
      if (this.#stored.has(path) || this.#unstorable.has(path) || inodeAt(cursor, path) === undefined) return
      tree.unstorable.push({ path, why: 'it kept being replaced while it was stored', tree: false })
    })
    await forEachSliced(this.#stored.keys(), slices, (path) => void (planned.has(path) || this.#stored.delete(path)))
    for (const [path, unstorable] of this.#unstorable) if (planned.has(path)) tree.unstorable.push(unstorable)
  }
}
