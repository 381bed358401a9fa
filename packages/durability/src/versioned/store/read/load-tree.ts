import { isNexusError } from '@nexus/errors'
import { pathRecord } from '../../../tree/committed.ts'
import type { Slices } from '@nexus/host'
import { DamagedObjectError, type ObjectRange } from '../../format/bytes/damage.ts'
import type { CommitHeader } from '../../format/header.ts'
import { chunkCount, type FileEntry, type IndexEntry, keyOf } from '../../format/index-entry.ts'
import { decodeInner, type PageRef } from '../../format/inner-page.ts'
import { decodeLeaf } from '../../format/leaf-page.ts'
import { MAX_ENTRY_REFS } from '../../format/bytes/limits.ts'
import { decodePackTable, type PackEntry } from '../../format/pack-table-page.ts'
import { PackTable } from '../../format/pack-table.ts'
import { expandPage } from '../../format/page.ts'
import { TreeCheck } from '../../format/tree-check.ts'
import { ChunkTable } from '../chunk-table.ts'
import { FileRecord } from '../file-record.ts'
import { begins } from '../index-pages.ts'
import { GoneObjectError, RangeReader } from '../range-reader.ts'
import type { SessionObjects, WholeCommit } from '../session-objects.ts'
import type { PageState, TreeState } from '../tree-state.ts'

/** So many pages are in memory at a time. */
const PAGES_AT_ONCE = 256

/** How a tree is loaded. */
export interface LoadOptions {
  slices: Slices
  /** Requests in flight. */
  concurrency: number
  signal?: AbortSignal | undefined
}

/** A commit with all that is known of its tree, and the way to its content. */
export interface LoadedTree {
  state: TreeState
  header: CommitHeader
  reader: RangeReader
}

/**
 * Reads the index of a commit, and trusts none of it.
 *
 * @throws DamagedObjectError; GoneObjectError where a page was reclaimed meanwhile
 */
export async function loadTree(
  objects: SessionObjects,
  commit: WholeCommit,
  options: LoadOptions,
): Promise<LoadedTree> {
  const { header, headerSha256 } = commit
  const { own, packs, table, range: headerRange } = await readPacks(objects, commit, options)
  const reader = new RangeReader(objects, table, commit)
  const state = emptyState(header, headerSha256)
  state.packs = new Map([...packs, own].map((pack) => [pack.n, { ...pack, live: 0 }]))
  state.packPages = header.pack_pages
  state.innerPages = header.index.depth === 2 ? header.index.pages : []
  await fill(state, await leafPages(reader, header, options), { reader, table, header, headerRange, options })
  return { state, header, reader }
}

/**
 * The same of a commit that may be damaged: pages that can't be had are left out, with the files that go on in them. Where these
 * list other pages, all that they list is left out.
 *
 * @param lost told of each page, by its first key, and of each file
 * @throws DamagedObjectError where the pack table can't be read
 */
export async function loadLeftTree(
  objects: SessionObjects,
  commit: WholeCommit,
  options: LoadOptions,
  lost: (path: string, error: Error) => void,
): Promise<LoadedTree> {
  const { header, headerSha256 } = commit
  const { own, packs, table, range } = await readPacks(objects, commit, options)
  const reader = new RangeReader(objects, table, commit)
  const state = emptyState(header, headerSha256)
  state.packs = new Map([...packs, own].map((pack) => [pack.n, { ...pack, live: 0 }]))
  const tryEach = async <T>(pages: readonly PageRef[], take: (page: PageRef) => Promise<T>): Promise<T[]> => {
    const taken: T[] = []
    for (const page of pages) {
      try {
        taken.push(await take(page))
      } catch (error) {
        if (!isNexusError(error, 'CORRUPT') && !(error instanceof GoneObjectError)) throw error
        lost(`${page.from}…`, error)
      }
    }
    return taken
  }
  const { depth, pages } = header.index
  const leaves =
    depth === 1
      ? pages
      : (
          await tryEach(pages, (page) => leafPages(reader, { ...header, index: { depth, pages: [page] } }, options))
        ).flat()
  const entries = await tryEach(leaves, async (page) => {
    const [read] = await readPages(reader, [page], options)
    return read === undefined ? [] : decodeLeaf(read.bytes, read.range)
  })
  const whole = wholeFiles(entries.flat(), lost)
  const place = { from: '', entries: whole.length } as PageRef
  new TreeCheck(table).add(whole, place, undefined, range)
  const paths: string[] = []
  const open = new Map<string, { entry: FileEntry; chunks: number[] }>()
  for (const entry of whole) placeEntry(state, entry, paths, open)
  for (const [path, { entry, chunks }] of open)
    placeFile(state, path, new FileRecord(state.table, { ...entry, chunks }))
  state.paths = paths
  state.totals = header.totals
  return { state, header, reader }
}

/** The entries without those of files that lack one. */
function wholeFiles(entries: readonly IndexEntry[], lost: (path: string, error: Error) => void): IndexEntry[] {
  const chunks = new Map<string, number>()
  for (const entry of entries) {
    if (entry.type === 'file' || entry.type === 'more')
      chunks.set(entry.path, (chunks.get(entry.path) ?? 0) + entry.refs.length)
  }
  const sizes = new Map(entries.flatMap((entry) => (entry.type === 'file' ? [[entry.path, entry] as const] : [])))
  const broken = new Set<string>()
  for (const [path, count] of chunks) {
    const file = sizes.get(path)
    if (file !== undefined && chunkCount(file.size, file.chunkSize) === count) continue
    broken.add(path)
    lost(path, new Error('a page of the index that holds part of it is lost'))
  }
  return broken.size === 0 ? [...entries] : entries.filter(({ path }) => !broken.has(path))
}

/**
 * The pages of entries of a commit, none of them read, and the way to them.
 *
 * @throws as {@link loadTree} does
 */
export async function openIndex(
  objects: SessionObjects,
  commit: WholeCommit,
  options: LoadOptions,
): Promise<{ pages: PageRef[]; reader: RangeReader }> {
  const { table } = await readPacks(objects, commit, options)
  const reader = new RangeReader(objects, table, commit)
  return { pages: await leafPages(reader, commit.header, options), reader }
}

/**
 * The objects that a commit takes something from: itself, and the others by ascending number.
 *
 * @throws DamagedObjectError; GoneObjectError where a page of the table was reclaimed meanwhile
 */
export async function readPacks(
  objects: SessionObjects,
  commit: WholeCommit,
  options: LoadOptions,
): Promise<{ own: PackEntry; packs: readonly PackEntry[]; table: PackTable; range: ObjectRange }> {
  const { header, base, bytes: whole } = commit
  const name = objects.nameOf(header.generation)
  const range: ObjectRange = { object: name, offset: 0, length: base }
  const own: PackEntry = { n: header.n, name, size: whole.length, base, live: 0 }
  const listed = new PackTable(own, header.packs, header.next_n, range)
  if (header.pack_pages.length === 0) return { own, packs: header.packs, table: listed, range }
  const packs: PackEntry[] = []
  const pages = await readPages(new RangeReader(objects, listed, commit), header.pack_pages, options)
  for (const { bytes, range: at } of pages) for (const pack of decodePackTable(bytes, at)) packs.push(pack)
  return { own, packs, table: new PackTable(own, packs, header.next_n, range), range }
}

/** A commit without a tree. */
export function emptyState(header: CommitHeader, headerSha256: string): TreeState {
  const { generation, nonce, kind, owner, next_n: nextN, journal, unstored, mixed_from: mixedFrom } = header
  return {
    commit: { generation, nonce, header_sha256: headerSha256, instanceId: owner.instance_id, kind },
    nextN,
    table: new ChunkTable(),
    packs: new Map(),
    pages: [],
    innerPages: [],
    packPages: [],
    files: pathRecord(),
    records: new Map(),
    dirs: pathRecord(),
    links: pathRecord(),
    paths: [],
    totals: { files: 0, dirs: 0, links: 0, bytes: 0 },
    journalLastSeq: journal.last_seq,
    unstored,
    rereadFrom: undefined,
    mixedFrom,
  }
}

async function leafPages(reader: RangeReader, header: CommitHeader, options: LoadOptions): Promise<PageRef[]> {
  const { depth, pages } = header.index
  if (depth === 1) return pages
  const leaves: PageRef[] = []
  for (const { page, bytes, range } of await readPages(reader, pages, options)) {
    const found = decodeInner(bytes, range)
    const entries = found.reduce((sum, each) => sum + each.entries, 0)
    const before = leaves.at(-1)
    if (
      entries !== page.entries ||
      found[0]?.from !== page.from ||
      (before !== undefined && before.from >= page.from)
    ) {
      throw new DamagedObjectError(range, 'the pages that it lists are others than it is listed with')
    }
    for (const each of found) leaves.push(each)
  }
  return leaves
}

interface Filling {
  reader: RangeReader
  table: PackTable
  header: CommitHeader
  headerRange: ObjectRange
  options: LoadOptions
}

async function fill(
  state: TreeState,
  leaves: readonly PageRef[],
  { reader, table, header, headerRange, options }: Filling,
): Promise<void> {
  const check = new TreeCheck(table)
  const paths: string[] = []
  const open = new Map<string, { entry: FileEntry; chunks: number[] }>()
  for (let at = 0; at < leaves.length; at += PAGES_AT_ONCE) {
    const some = leaves.slice(at, at + PAGES_AT_ONCE)
    for (const [nth, { page, bytes, range }] of (await readPages(reader, some, options)).entries()) {
      if (options.slices.due) await options.slices.pause()
      const entries = decodeLeaf(bytes, range)
      check.add(entries, page, leaves[at + nth + 1]?.from, range)
      for (const entry of entries) placeEntry(state, entry, paths, open)
      state.pages.push(pageState(page, entries, state.pages.length === 0))
    }
  }
  for (const [path, { entry, chunks }] of open)
    placeFile(state, path, new FileRecord(state.table, { ...entry, chunks }))
  check.end(header.totals, headerRange)
  state.paths = paths
  state.totals = header.totals
}

function pageState(ref: PageRef, entries: readonly IndexEntry[], isFirst: boolean): PageState {
  const [first] = entries
  return { ref, keys: entries.map(keyOf), isNatural: isFirst || (first !== undefined && begins(first)) }
}

function placeEntry(
  state: TreeState,
  entry: IndexEntry,
  paths: string[],
  open: Map<string, { entry: FileEntry; chunks: number[] }>,
): void {
  const { path } = entry
  if (entry.type === 'dir') state.dirs[path] = { mode: entry.mode }
  else if (entry.type === 'link') state.links[path] = { target: entry.target }
  else {
    const chunks = entry.refs.map((ref) => {
      const id = state.table.idOf(ref.digest) ?? state.table.put(ref.digest, ref)
      const pack = state.packs.get(state.table.packOf(id))
      if (state.table.use(id, 1) === 1 && pack !== undefined) pack.live += state.table.lengthOf(id)
      return id
    })
    if (entry.type === 'more') open.get(path)?.chunks.push(...chunks)
    else {
      paths.push(path)
      if (chunks.length < MAX_ENTRY_REFS) placeFile(state, path, new FileRecord(state.table, { ...entry, chunks }))
      else open.set(path, { entry, chunks })
    }
  }
}

function placeFile(state: TreeState, path: string, record: FileRecord): void {
  state.files[path] = record
  state.records.set(path, record)
}

/** Expanded pages, in the order in which they were asked for. */
async function readPages(
  reader: RangeReader,
  pages: readonly PageRef[],
  options: LoadOptions,
): Promise<{ page: PageRef; bytes: Buffer; range: ObjectRange }[]> {
  const read = new Map<PageRef, { page: PageRef; bytes: Buffer; range: ObjectRange }>()
  await reader.read(
    pages,
    (page, stored, range) => void read.set(page, { page, bytes: expandPage(stored, page, range), range }),
    options,
  )
  return pages.flatMap((page) => read.get(page) ?? [])
}

/** Reads what the tree of a state refers to. */
export function readerOf(objects: SessionObjects, { commit, packs, nextN }: TreeState): RangeReader {
  const name = objects.nameOf(commit.generation)
  const own = [...packs.values()].find((pack) => pack.name === name)
  const others = [...packs.values()].filter((pack) => pack !== own)
  const range = { object: name, offset: 0, length: own?.base ?? 0 }
  return new RangeReader(
    objects,
    new PackTable(own ?? { n: nextN, name, size: 0, base: 0, live: 0 }, others, nextN, range),
  )
}
