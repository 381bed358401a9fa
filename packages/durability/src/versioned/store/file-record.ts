import * as crypto from 'node:crypto'
import type { CommittedFile } from '../../tree/committed.ts'
import type { FileStat } from '../../tree/tree-stat.ts'
import { MAX_ENTRY_REFS } from '../format/bytes/limits.ts'
import type { ChunkTable } from './chunk-table.ts'

/** What a file record is made of. */
export interface FileFields {
  /** 0 to 0o777. */
  mode: number
  mtimeNs: bigint
  size: number
  chunkSize: number
  /** Ids in the chunk table of the tree. */
  chunks: readonly number[]
}

/** A file as a commit has it, and what is known of the one on this disk. Never changed but for what is known. */
export class FileRecord implements CommittedFile {
  readonly mode: number
  readonly mtimeNs: bigint
  readonly size: number
  readonly chunkSize: number
  readonly chunks: readonly number[]
  readonly #table: ChunkTable
  /** The file on this disk, as it was before its content was read; undefined when this process hasn't read it. */
  stat: FileStat | undefined

  constructor(table: ChunkTable, { mode, mtimeNs, size, chunkSize, chunks }: FileFields, stat?: FileStat) {
    this.#table = table
    this.mode = mode
    this.mtimeNs = mtimeNs
    this.size = size
    this.chunkSize = chunkSize
    this.chunks = chunks
    this.stat = stat
  }

  get mtime_ns(): string {
    return String(this.mtimeNs)
  }

  /** Whether a chunk has this digest. */
  hasChunk(index: number, digest: Buffer): boolean {
    const id = this.chunks[index]
    return id !== undefined && this.#table.digest(id).equals(digest)
  }

  /** Of the content where it is one chunk, else of the digests of its chunks one behind the other: the same for the same content. */
  get sha256(): string {
    const [only] = this.chunks
    if (only !== undefined && this.chunks.length === 1) return this.#table.digest(only).toString('hex')
    const hash = crypto.createHash('sha256')
    for (const id of this.chunks) hash.update(this.#table.digest(id))
    return hash.digest('hex')
  }
}

/** The keys of the entries of a file: one for each 64 chunks. */
export function entryCount({ chunks }: { chunks: readonly number[] }): number {
  return Math.max(1, Math.ceil(chunks.length / MAX_ENTRY_REFS))
}
