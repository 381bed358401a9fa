import type { Committed, CommittedDir, CommittedLink, MixedFrom } from '../../tree/committed.ts'
import type { ChunkRef } from '../format/bytes/chunk.ts'
import type { CommitLink, TreeTotals } from '../format/header.ts'
import { type IndexEntry, moreKey } from '../format/index-entry.ts'
import type { PageRef } from '../format/inner-page.ts'
import { MAX_ENTRY_REFS } from '../format/bytes/limits.ts'
import type { PackEntry } from '../format/pack-table-page.ts'
import type { ChunkTable } from './chunk-table.ts'
import type { FileRecord } from './file-record.ts'

/** A page of entries, and which they are. */
export interface PageState {
  ref: PageRef
  /** Keys of its entries, sorted. */
  keys: readonly string[]
  /** It begins where a hash says, and not because the page before was full. */
  isNatural: boolean
}

/** Everything that lies in a tree, by path. */
export interface TreeContent {
  files: Record<string, FileRecord>
  dirs: Record<string, CommittedDir>
  links: Record<string, CommittedLink>
}

/** Where rereading goes on: at this chunk of this file. */
export interface RereadPosition {
  path: string
  chunk: number
}

/** One commit, held so that the next one can be made from it. */
export interface TreeState extends TreeContent {
  commit: CommitLink & { instanceId: string; kind: string }
  /** The lowest number of an object that was never given. */
  nextN: number
  table: ChunkTable
  /** The same as `files`: looked up for every file at every turn, which a map is much quicker at. */
  records: Map<string, FileRecord>
  /** Objects that the tree takes something from, the commit itself among them. `live` counts chunks only. */
  packs: Map<number, PackEntry>
  pages: PageState[]
  /** Pages that list pages, and those of the pack table. */
  innerPages: PageRef[]
  packPages: PageRef[]
  /** Paths of all files, sorted. */
  paths: readonly string[]
  totals: TreeTotals
  journalLastSeq: number
  unstored: readonly string[]
  /** Where the next snapshot goes on with rereading; undefined: at the beginning. */
  rereadFrom: RereadPosition | undefined
  mixedFrom: MixedFrom | undefined
}

/** The commit as everything outside of the layout sees it. */
export function committedOf(state: TreeState): Committed {
  const { commit, files, dirs, links, paths, journalLastSeq, unstored, mixedFrom } = state
  return {
    generation: commit.generation,
    nonce: commit.nonce,
    instance_id: commit.instanceId,
    objects: paths as string[],
    entries: files,
    dirs,
    links,
    journal: { last_seq: journalLastSeq },
    unstored: [...unstored],
    ...(mixedFrom === undefined ? {} : { mixed_from: mixedFrom }),
  }
}

/** What lies at a path. */
export interface ContentLookup {
  file: (path: string) => FileRecord | undefined
  link: (path: string) => CommittedLink | undefined
  dir: (path: string) => CommittedDir | undefined
}

/** The entry of the index that a key names. */
export function entryOf(key: string, content: ContentLookup, refOf: (id: number) => ChunkRef): IndexEntry {
  const nul = key.indexOf('\0')
  const path = nul === -1 ? key : key.slice(0, nul)
  const file = content.file(path)
  if (file !== undefined) {
    const first = nul === -1 ? 0 : Number(key.slice(nul + 1))
    const refs = file.chunks.slice(first, first + MAX_ENTRY_REFS).map(refOf)
    if (nul !== -1) return { type: 'more', path, first, refs }
    const { mode, mtimeNs, size, chunkSize } = file
    return { type: 'file', path, mode, mtimeNs, size, chunkSize, refs }
  }
  const link = content.link(path)
  if (link !== undefined) return { type: 'link', path, target: link.target }
  return { type: 'dir', path, mode: content.dir(path)?.mode ?? 0 }
}

/** The key of the nth entry of a file. */
export function entryKey(path: string, nth: number): string {
  return nth === 0 ? path : moreKey(path, nth * MAX_ENTRY_REFS)
}
