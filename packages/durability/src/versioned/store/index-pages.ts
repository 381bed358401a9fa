import type { Slices } from '@nexus/host'
import { ByteWriter } from '../format/bytes/byte-writer.ts'
import { type ChunkRef, digestOf } from '../format/bytes/chunk.ts'
import { type IndexEntry, keyOf } from '../format/index-entry.ts'
import { encodeInner, type PageRef, writePageRef } from '../format/inner-page.ts'
import { encodeLeaf, writeEntry } from '../format/leaf-page.ts'
import { MAX_LISTED } from '../format/bytes/limits.ts'
import { encodePackTable, type PackEntry, writePack } from '../format/pack-table-page.ts'
import { beginsPage, separatorOf } from '../format/page-cut.ts'
import type { PageState } from './tree-state.ts'

/** A page is begun before it would grow beyond this. */
const FULL_BYTES = 64 * 1024

/** Stores the bytes of a page. The reference may get its place only later, so it is kept and not copied. */
export type StorePage = (bytes: Buffer, digest: Buffer) => ChunkRef | Promise<ChunkRef>

/** What the pages of a tree are made from. */
export interface PageChanges {
  /** Keys whose entries are new or other than they were (true), or gone (false). */
  keys: ReadonlyMap<string, boolean>
  /** Pages that are to be stored again, although nothing in them changed. */
  isMoved: (page: PageState) => boolean
  entryOf: (key: string) => IndexEntry
  store: StorePage
  slices: Slices
}

const scratch = new ByteWriter()

/**
 * The pages of a tree, from those of the commit before. Only what lies between the nearest sure boundaries around a change is
 * cut anew, so the same tree has the same pages, whatever it was before.
 */
export async function rebuildPages(before: readonly PageState[], changes: PageChanges): Promise<PageState[]> {
  const changed = await changesByPage(before, changes)
  const after: PageState[] = []
  for (let at = 0; at < Math.max(before.length, changed.size > 0 ? 1 : 0);) {
    if (changes.slices.due) await changes.slices.pause()
    if (!needsWork(at)) {
      after.push(before[at] as PageState)
      at++
      continue
    }
    const from = at
    do at++
    while (at < before.length && (needsWork(at) || !isSure(at)))
    // What was kept before it ends at no sure boundary when this begins at none.
    const kept = isSure(from) ? 0 : stepsBack(from)
    const first = from - kept
    after.length -= kept
    const keys: string[] = []
    for (let page = first; page < at; page++)
      for (const key of merge(before[page]?.keys ?? [], changed.get(page))) keys.push(key)
    await cut(keys, before.slice(first, at), after, changes)
  }
  const [head] = after
  if (head !== undefined && head.ref.from !== '') after[0] = { ...head, ref: { ...head.ref, from: '' } }
  return after

  function needsWork(page: number): boolean {
    const state = before[page]
    return changed.has(page) || (state !== undefined && changes.isMoved(state))
  }

  /** Whether a page begins where it does whatever lies before it, also by what is in it now. */
  function isSure(page: number): boolean {
    if (page === 0) return true
    const state = before[page] as PageState
    const own = changed.get(page)
    if (own === undefined) return state.isNatural
    const [key] = merge(state.keys, own)
    return key !== undefined && begins(changes.entryOf(key))
  }

  function stepsBack(page: number): number {
    let steps = 1
    while (!isSure(page - steps)) steps++
    return steps
  }
}

/** Changes by the page that they fall into. */
async function changesByPage(
  before: readonly PageState[],
  { keys, slices }: PageChanges,
): Promise<Map<number, Map<string, boolean>>> {
  const byPage = new Map<number, Map<string, boolean>>()
  for (const [key, isThere] of keys) {
    if (slices.due) await slices.pause()
    let [low, high] = [0, before.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >>> 1
      if ((before[middle] as PageState).ref.from <= key) low = middle
      else high = middle - 1
    }
    const page = byPage.get(low)
    if (page === undefined) byPage.set(low, new Map([[key, isThere]]))
    else page.set(key, isThere)
  }
  return byPage
}

function merge(keys: readonly string[], changes: ReadonlyMap<string, boolean> | undefined): readonly string[] {
  if (changes === undefined) return keys
  const kept = keys.filter((key) => !changes.has(key))
  for (const [key, isThere] of changes) if (isThere) kept.push(key)
  return kept.toSorted(byCodeUnit)
}

function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : 1
}

async function cut(
  keys: readonly string[],
  replaced: readonly PageState[],
  after: PageState[],
  { entryOf, store, slices, isMoved }: PageChanges,
): Promise<void> {
  const reusable = new Map(
    replaced.filter((page) => !isMoved(page)).map(({ ref }) => [ref.digest.toString('hex'), ref]),
  )
  let entries: IndexEntry[] = []
  let bytes = 0
  let isNatural = true
  const end = async (): Promise<void> => {
    if (entries.length === 0) return
    const pageKeys = entries.map(keyOf)
    const from = after.length === 0 ? '' : separatorOf(after.at(-1)?.keys.at(-1) ?? '', pageKeys[0] as string)
    const raw = encodeLeaf(entries)
    const digest = digestOf(raw)
    const known = reusable.get(digest.toString('hex'))
    const ref = known === undefined ? await store(raw, digest) : { ...known }
    after.push({ ref: Object.assign(ref, { from, entries: entries.length }), keys: pageKeys, isNatural })
    entries = []
    bytes = 0
  }
  for (const key of keys) {
    if (slices.due) await slices.pause()
    const entry = entryOf(key)
    const own = bytesOf(entry)
    const begin = beginsPage(key, own)
    if (begin || bytes + own > FULL_BYTES) {
      await end()
      isNatural = begin || after.length === 0
    }
    entries.push(entry)
    bytes += own
  }
  await end()
}

/** Whether a page begins at this entry, whatever lies before it. */
export function begins(entry: IndexEntry): boolean {
  return beginsPage(keyOf(entry), bytesOf(entry))
}

function bytesOf(entry: IndexEntry): number {
  scratch.clear()
  writeEntry(scratch, entry)
  return Buffer.byteLength(entry.path) + scratch.length
}

/** Pages as a header lists them: themselves, or for too many the pages that list them. */
export async function listPages(
  pages: readonly PageRef[],
  known: readonly PageRef[],
  store: StorePage,
  slices: Slices,
): Promise<{ depth: 1 | 2; pages: PageRef[] }> {
  if (pages.length <= MAX_LISTED) return { depth: 1, pages: [...pages] }
  const groups = await group(
    pages,
    ({ from }) => from,
    (to, page) => writePageRef(to, page),
    slices,
  )
  const listed: PageRef[] = []
  for (const each of groups) {
    if (slices.due) await slices.pause()
    const entries = each.reduce((sum, page) => sum + page.entries, 0)
    listed.push({ ...(await storedOnce(encodeInner(each), known, store)), from: each[0]?.from ?? '', entries })
  }
  return { depth: 2, pages: listed }
}

/** The pack table as a header has it: itself, or for too many objects the pages that list them. */
export async function listPacks(
  packs: readonly PackEntry[],
  known: readonly PageRef[],
  store: StorePage,
  slices: Slices,
): Promise<{ packs: PackEntry[]; packPages: PageRef[] }> {
  if (packs.length <= MAX_LISTED) return { packs: [...packs], packPages: [] }
  const groups = await group(
    packs,
    ({ n }) => String(n),
    (to, pack) => writePack(to, pack),
    slices,
  )
  const listed = new Set(packs.map(({ n }) => n))
  const usable = known.filter(({ n }) => listed.has(n))
  const packPages: PageRef[] = []
  for (const each of groups) {
    packPages.push({ ...(await storedOnce(encodePackTable(each), usable, store)), from: '', entries: each.length })
  }
  const numbers = new Set(packPages.map(({ n }) => n))
  return { packs: packs.filter(({ n }) => numbers.has(n)), packPages }
}

async function storedOnce(bytes: Buffer, known: readonly PageRef[], store: StorePage): Promise<ChunkRef> {
  const digest = digestOf(bytes)
  return known.find((page) => page.digest.equals(digest)) ?? (await store(bytes, digest))
}

async function group<T>(
  items: readonly T[],
  keyOfItem: (item: T) => string,
  write: (to: ByteWriter, item: T) => void,
  slices: Slices,
): Promise<T[][]> {
  const groups: T[][] = []
  let bytes = 0
  for (const item of items) {
    if (slices.due) await slices.pause()
    const key = keyOfItem(item)
    scratch.clear()
    write(scratch, item)
    const own = Buffer.byteLength(key) + scratch.length
    if (groups.length === 0 || beginsPage(key, own) || bytes + own > FULL_BYTES) {
      groups.push([])
      bytes = 0
    }
    groups.at(-1)?.push(item)
    bytes += own
  }
  return groups
}
