import type { MixedFrom } from '../../tree/committed.ts'
import type { FORMAT_VERSION } from './bytes/limits.ts'
import type { PageRef } from './inner-page.ts'
import type { PackEntry } from './pack-table-page.ts'

/** What made a commit. */
export type CommitKind = (typeof COMMIT_KINDS)[number]

export const COMMIT_KINDS = [
  'turn',
  'request',
  'shutdown',
  'retry',
  'claim',
  'repack',
  'fork',
  'migrate',
  'removed',
] as const

/** Names one commit beyond doubt: no other has this digest. */
export interface CommitLink {
  generation: number
  nonce: string
  /** 64 lowercase hex digits. */
  header_sha256: string
}

/** Who made a commit. Information: it decides nothing. */
export interface CommitOwner {
  instance_id: string
  machine_id: string
  host?: string
  pid?: number
}

/** The pages of the tree index. */
export interface IndexRoot {
  /** 1: `pages` hold entries. 2: they list pages that do. */
  depth: 1 | 2
  pages: PageRef[]
}

/** What the tree of a commit adds up to. */
export interface TreeTotals {
  files: number
  dirs: number
  links: number
  /** Of all files. */
  bytes: number
}

/**
 * The header of a commit. Names are those of the stored JSON.
 *
 * @see docs/formats/versioned.md
 */
export interface CommitHeader {
  format: typeof FORMAT_VERSION
  session_id: string
  generation: number
  /** Random per commit. */
  nonce: string
  kind: CommitKind
  turn_id?: string
  /** ISO 8601, UTC. */
  completed_at: string
  journal: { last_seq: number }
  epoch: number
  owner: CommitOwner
  /** Absent in generation 1. */
  parent?: CommitLink
  forked_from?: CommitLink & { session_id: string }
  /** What references to this commit's own payload call it. */
  n: number
  /** The lowest number that was never given. */
  next_n: number
  /** By ascending number; where `pack_pages` list them all, only those that these pages lie in. */
  packs: PackEntry[]
  /** Pages of the pack table, for more than a thousand. `from` is '' in each. */
  pack_pages: PageRef[]
  index: IndexRoot
  totals: TreeTotals
  unstored: string[]
  mixed_from?: MixedFrom
  /** ISO 8601, UTC. */
  expires_at?: string
}

/** The JSON of a header, as it is compressed and stored. */
export function headerJson(header: CommitHeader): Buffer {
  const { index, pack_pages: packPages } = header
  const stored = {
    ...header,
    pack_pages: packPages.map(storedPage),
    index: { ...index, pages: index.pages.map(storedPage) },
  }
  return Buffer.from(JSON.stringify(stored))
}

function storedPage({ from, entries, digest, n, offset, length, codec }: PageRef): Record<string, unknown> {
  return { from, entries, sha256: digest.toString('hex'), n, offset, length, codec }
}
