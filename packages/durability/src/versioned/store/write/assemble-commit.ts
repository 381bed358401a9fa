import { Crc32c, type Slices } from '@nexus/host'
import { type ChunkRef, encodeChunk } from '../../format/bytes/chunk.ts'
import { decodeHead, encodeFooter, encodeHead } from '../../format/commit-object.ts'
import type { CommitHeader, TreeTotals } from '../../format/header.ts'
import type { PageRef } from '../../format/inner-page.ts'
import { FORMAT_VERSION } from '../../format/bytes/limits.ts'
import type { PackEntry } from '../../format/pack-table-page.ts'
import { listPacks, listPages, rebuildPages, type StorePage } from '../index-pages.ts'
import { PayloadSpool, placeOf, RIDING_BYTES, type SpoolOptions, type Spot } from './payload-spool.ts'
import type { TreeDraft } from './tree-draft.ts'
import { type ContentLookup, entryOf, type PageState, type TreeState } from '../tree-state.ts'

/** What a header says besides where things lie. */
export type CommitFields = Omit<CommitHeader, 'format' | 'n' | 'next_n' | 'packs' | 'pack_pages' | 'index' | 'totals'>

/** A tree that is to become a commit. */
export interface AssembleParts {
  fields: CommitFields
  parent: TreeState | undefined
  draft: TreeDraft
  spool: PayloadSpool
  spoolOptions: SpoolOptions
  ownN: number
  nextN: () => number
  content: ContentLookup
  /** Keys of directories and links that differ. */
  otherKeys: ReadonlyMap<string, boolean>
  totals: TreeTotals
  /** Objects that must not be referred to any more. */
  emptied: ReadonlySet<number>
  slices: Slices
}

/** A commit with its bytes, and what its tree is once it has landed. */
export interface AssembledCommit {
  header: CommitHeader
  headerSha256: string
  bytes: Buffer
  pages: PageState[]
  innerPages: PageRef[]
  packPages: PageRef[]
  /** By number, the commit itself among them; `live` counts chunks only. */
  packs: Map<number, PackEntry>
  payloadBytes: number
  /** Something that it names first was put, and is to be flushed. */
  hasPacks: boolean
}

/** A commit rides on its own with up to so many bytes of pages. */
const RIDING_PAGE_BYTES = 2 * RIDING_BYTES

/** Makes a commit of a tree whose files have been read. Everything that it refers to is stored when it resolves. */
export async function assembleCommit(parts: AssembleParts): Promise<AssembledCommit> {
  const { fields, parent, draft, spool, spoolOptions, ownN, slices, emptied } = parts
  const payload = await spool.close()
  draft.place(ownN)
  const pageSpool = new PayloadSpool(spoolOptions)
  const open: { ref: ChunkRef; spot: Spot }[] = []
  const storePage: StorePage = async (bytes, digest) => {
    const chunk = encodeChunk(bytes, digest)
    const ref: ChunkRef = { digest, n: ownN, offset: 0, length: chunk.stored.length, codec: chunk.codec }
    open.push({ ref, spot: await pageSpool.add(chunk) })
    return ref
  }
  const keys = draft.changedKeys()
  for (const [key, isThere] of parts.otherKeys) keys.set(key, isThere || keys.get(key) === true)
  for (const key of draft.movedKeys()) if (!keys.has(key)) keys.set(key, true)
  const pages = await rebuildPages(parent?.pages ?? [], {
    keys,
    isMoved: ({ ref }) => emptied.has(ref.n),
    entryOf: (key) => entryOf(key, parts.content, (id) => draft.refOf(id)),
    store: storePage,
    slices,
  })
  const paged = await pageSpool.close(RIDING_PAGE_BYTES)
  for (const { ref, spot } of open) {
    const { n, offset } = placeOf(spot, ownN)
    Object.assign(ref, { n, offset: n === ownN ? payload.ridingBytes + offset : offset })
  }
  const body = [...payload.riding, ...paged.riding]
  let pagesBytes = paged.ridingBytes
  const storeLate: StorePage = (bytes, digest) => {
    const { stored, codec } = encodeChunk(bytes, digest)
    const offset = payload.ridingBytes + pagesBytes
    body.push(stored)
    pagesBytes += stored.length
    return { digest, n: ownN, offset, length: stored.length, codec }
  }
  const refs = pages.map(({ ref }) => ref)
  const isUsable = ({ n }: PageRef): boolean => !emptied.has(n)
  const index = await listPages(refs, (parent?.innerPages ?? []).filter(isUsable), storeLate, slices)
  const innerPages = index.depth === 2 ? index.pages : []

  const live = draft.liveBytes()
  const listed = new Map<number, PackEntry>()
  const chunkPacks = new Map<number, PackEntry>()
  const pageLive = new Map<number, number>()
  for (const { n, length } of [...refs, ...innerPages]) pageLive.set(n, (pageLive.get(n) ?? 0) + length)
  const known = [...(parent?.packs.values() ?? []), ...payload.packs, ...paged.packs, ...draft.keptEntries]
  for (const pack of known.toSorted((a, b) => a.n - b.n)) {
    const chunkBytes = live.get(pack.n) ?? 0
    const bytes = chunkBytes + (pageLive.get(pack.n) ?? 0)
    if (bytes === 0) continue
    listed.set(pack.n, { ...pack, live: bytes })
    chunkPacks.set(pack.n, { ...pack, live: chunkBytes })
  }
  const table = await listPacks([...listed.values()], (parent?.packPages ?? []).filter(isUsable), storeLate, slices)
  const header: CommitHeader = {
    format: FORMAT_VERSION,
    ...fields,
    n: ownN,
    next_n: parts.nextN(),
    packs: table.packs,
    pack_pages: table.packPages,
    index,
    totals: parts.totals,
  }
  const { bytes: head, headerSha256 } = encodeHead(header)
  // Whatever went into it: what no reader would take is not committed.
  decodeHead(head, {
    object: spoolOptions.nameOf(fields.generation),
    sessionId: fields.session_id,
    generation: fields.generation,
  })
  const bytes = whole(head, body, { payloadBytes: payload.ridingBytes, pagesBytes })
  const own = {
    n: ownN,
    name: spoolOptions.nameOf(fields.generation),
    size: bytes.length,
    base: head.length,
    live: live.get(ownN) ?? 0,
  }
  chunkPacks.set(ownN, own)
  const payloadBytes = payload.ridingBytes + spool.packedBytes + pageSpool.packedBytes
  // A kept pack was put by an attempt that may have ended before it was flushed.
  const hasPacks = spool.hasPacks || pageSpool.hasPacks || draft.keptEntries.length > 0
  const { packPages } = table
  return { header, headerSha256, bytes, pages, innerPages, packPages, packs: chunkPacks, payloadBytes, hasPacks }
}

function whole(
  head: Buffer,
  body: readonly Uint8Array[],
  { payloadBytes, pagesBytes }: { payloadBytes: number; pagesBytes: number },
): Buffer {
  const sum = new Crc32c()
  for (const part of [head, ...body]) sum.update(part)
  return Buffer.concat([head, ...body, encodeFooter({ base: head.length, payloadBytes, pagesBytes }, sum.value)])
}
