import type { ChunkRef, StoredChunk } from '../../format/bytes/chunk.ts'
import type { UploadedPack } from '../../core/session-record.ts'
import { mayName } from '../../core/reclaim.ts'
import { packFile } from '../../core/versioned-keys.ts'
import { MAX_ENTRY_REFS } from '../../format/bytes/limits.ts'
import type { PackEntry } from '../../format/pack-table-page.ts'
import { ChunkTable } from '../chunk-table.ts'
import { entryCount, type FileFields, FileRecord } from '../file-record.ts'
import { decodeContents, placeOf, type PayloadSpool, type Spot } from './payload-spool.ts'
import { entryKey, type TreeState } from '../tree-state.ts'
import type { FileStat } from '../../../tree/tree-stat.ts'

/** A pack that an earlier attempt uploaded, and the number that it has in this commit once something of it is used. */
interface KeptPack {
  pack: UploadedPack
  entry: PackEntry | undefined
}

/**
 * The files of the next commit while they are being found: what differs from the commit before, and where the chunks go that
 * it doesn't have. Nothing of the commit before changes until {@link accept}.
 */
export class TreeDraft {
  readonly table: ChunkTable
  readonly #parent: TreeState | undefined
  readonly #spool: PayloadSpool
  readonly #takeNumber: () => number
  /** Undefined: gone. */
  readonly #files = new Map<string, FileRecord | undefined>()
  readonly #uses = new Map<number, number>()
  /** Chunks that are new, and where they go; those that move, too. */
  readonly #spots = new Map<number, Spot | { kept: KeptPack; ref: Omit<ChunkRef, 'digest' | 'n'> }>()
  /** Files that have chunks which move. */
  readonly #moved = new Set<string>()
  readonly #placed = new Map<number, Omit<ChunkRef, 'digest'>>()
  readonly #kept = new Map<string, { kept: KeptPack; ref: Omit<ChunkRef, 'digest' | 'n'> }>()
  readonly #keptPacks: KeptPack[]

  /**
   * @param kept packs that earlier attempts uploaded
   */
  constructor(
    parent: TreeState | undefined,
    spool: PayloadSpool,
    { kept, generation, takeNumber }: { kept: readonly UploadedPack[]; generation: number; takeNumber: () => number },
  ) {
    this.#parent = parent
    this.#spool = spool
    this.#takeNumber = takeNumber
    this.table = parent?.table ?? new ChunkTable()
    this.#keptPacks = kept.filter(({ name }) => mayName(name, generation)).map((pack) => ({ pack, entry: undefined }))
    for (const each of this.#keptPacks) {
      for (const { digest, ...ref } of decodeContents(each.pack.contents)) {
        this.#kept.set(digest.toString('hex'), { kept: each, ref })
      }
    }
  }

  /** Files that differ from the commit before, by path; undefined for those that are gone. */
  get changes(): ReadonlyMap<string, FileRecord | undefined> {
    return this.#files
  }

  /** The file as the next commit has it. */
  file(path: string): FileRecord | undefined {
    return this.#files.has(path) ? this.#files.get(path) : this.#parent?.records.get(path)
  }

  /** The id of a chunk that needn't be stored. Only what the commit before refers to, or this one stores, is sure to stay. */
  known(digest: Buffer): number | undefined {
    const id = this.table.idOf(digest)
    if (id !== undefined && (this.table.uses(id) > 0 || this.#spots.has(id))) return id
    const kept = this.#kept.size === 0 ? undefined : this.#kept.get(digest.toString('hex'))
    if (kept === undefined) return undefined
    const taken = this.#newId(digest)
    this.#spots.set(taken, kept)
    return taken
  }

  /** Stores a chunk that isn't known. */
  async add(chunk: StoredChunk): Promise<number> {
    const id = this.#newId(chunk.digest)
    this.#spots.set(id, await this.#spool.add(chunk))
    return id
  }

  /** Stores a chunk that is known once more: it leaves the object that it lies in. `paths` are all files that have it. */
  async move(id: number, chunk: StoredChunk, paths: Iterable<string>): Promise<void> {
    this.#spots.set(id, await this.#spool.add(chunk))
    for (const path of paths) this.#moved.add(path)
  }

  /** Keys of the entries that have chunks which move. */
  *movedKeys(): Generator<string> {
    for (const path of this.#moved) {
      const record = this.file(path)
      for (const [at, id] of record?.chunks.entries() ?? []) {
        if (this.#spots.has(id)) yield entryKey(path, Math.floor(at / MAX_ENTRY_REFS))
      }
    }
  }

  /** Says what a file is. The same as before isn't a change. */
  setFile(path: string, fields: FileFields, stat: FileStat | undefined): void {
    const before = this.file(path)
    if (before !== undefined && isSame(before, fields)) {
      before.stat = stat
      return
    }
    this.#count(before, -1)
    const record = new FileRecord(this.table, fields, stat)
    this.#count(record, 1)
    this.#files.set(path, record)
  }

  removeFile(path: string): void {
    const before = this.file(path)
    if (before === undefined) return
    this.#count(before, -1)
    this.#files.set(path, undefined)
  }

  /** The spool is closed: every chunk has its place. */
  place(ownN: number): void {
    for (const [id, spot] of this.#spots) {
      if ('pack' in spot) this.#placed.set(id, placeOf(spot, ownN))
      else if (this.usesAfter(id) > 0) {
        const { kept, ref } = spot
        const { pack } = kept
        kept.entry ??= {
          n: this.#takeNumber(),
          name: `packs/${packFile(pack.name)}`,
          size: pack.sizeBytes,
          base: 0,
          live: 0,
        }
        this.#placed.set(id, { n: kept.entry.n, ...ref })
      }
    }
  }

  /** Kept packs that this commit takes something from. */
  get keptEntries(): PackEntry[] {
    return this.#keptPacks.flatMap(({ entry }) => entry ?? [])
  }

  /** Where a chunk lies as of this commit. */
  refOf(id: number): ChunkRef {
    const placed = this.#placed.get(id)
    return placed === undefined ? this.table.ref(id) : { digest: this.table.digest(id), ...placed }
  }

  /** Keys of the entries that differ: true where there is one. */
  changedKeys(): Map<string, boolean> {
    const keys = new Map<string, boolean>()
    for (const [path, record] of this.#files) {
      const before = this.#parent?.files[path]
      const count = record === undefined ? 0 : entryCount(record)
      const most = Math.max(count, before === undefined ? 0 : entryCount(before))
      for (let nth = 0; nth < most; nth++) keys.set(entryKey(path, nth), nth < count)
    }
    return keys
  }

  /** Live bytes by object, as of this commit: chunks only. */
  liveBytes(): Map<number, number> {
    const live = new Map<number, number>()
    for (const [n, pack] of this.#parent?.packs ?? []) live.set(n, pack.live)
    const add = (n: number, bytes: number): void => void live.set(n, (live.get(n) ?? 0) + bytes)
    for (const id of new Set([...this.#uses.keys(), ...this.#placed.keys()])) {
      if (this.table.uses(id) > 0) add(this.table.packOf(id), -this.table.lengthOf(id))
      if (this.usesAfter(id) > 0) {
        const { n, length } = this.refOf(id)
        add(n, length)
      }
    }
    return live
  }

  usesAfter(id: number): number {
    return this.table.uses(id) + (this.#uses.get(id) ?? 0)
  }

  /** The commit landed: what was a draft is the tree. */
  accept({ files, records }: Pick<TreeState, 'files' | 'records'>): void {
    for (const [id, placed] of this.#placed) this.table.move(id, placed)
    for (const [id, change] of this.#uses) this.table.use(id, change)
    for (const [path, record] of this.#files) {
      if (record === undefined) {
        delete files[path]
        records.delete(path)
      } else {
        files[path] = record
        records.set(path, record)
      }
    }
  }

  #newId(digest: Buffer): number {
    const dead = this.table.idOf(digest)
    return dead ?? this.table.put(digest, { n: 0, offset: 0, length: 0, codec: 'raw' })
  }

  #count(record: FileRecord | undefined, change: number): void {
    for (const id of record?.chunks ?? []) this.#uses.set(id, (this.#uses.get(id) ?? 0) + change)
  }
}

function isSame(a: FileFields, b: FileFields): boolean {
  return (
    a.size === b.size &&
    a.mtimeNs === b.mtimeNs &&
    a.mode === b.mode &&
    a.chunkSize === b.chunkSize &&
    a.chunks.length === b.chunks.length &&
    a.chunks.every((id, at) => id === b.chunks[at])
  )
}
