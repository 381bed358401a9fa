import { type IndexEntry, keyOf } from '../format/index-entry.ts'
import type { PageRef } from '../format/inner-page.ts'
import { decodeLeaf } from '../format/leaf-page.ts'
import { expandPage } from '../format/page.ts'
import { type LoadOptions, openIndex } from '../store/read/load-tree.ts'
import type { RangeReader } from '../store/range-reader.ts'
import { GoneObjectError } from '../store/range-reader.ts'
import { type HistoryOptions, type HistorySource, orReclaimed, settled } from './history-source.ts'

/** What differs between two trees. Paths are sorted. */
export interface SessionDiff {
  added: string[]
  removed: string[]
  /** Other content, another mode, another target, or another kind. A time alone is no difference. */
  changed: string[]
}

/** One side of a comparison. */
export interface DiffSide {
  source: HistorySource
  generation: number
}

/**
 * Compares two commits, of one session or of two. Pages that both have aren't read, so that trees which hardly differ are
 * compared in the time that the difference takes.
 *
 * @throws NexusError `NOT_FOUND` when a generation was reclaimed, `CORRUPT`
 */
export async function diffSessions(
  before: DiffSide,
  after: DiffSide,
  options: HistoryOptions = {},
): Promise<SessionDiff> {
  const loading = settled(options)
  const [a, b] = await Promise.all([indexOf(before, loading), indexOf(after, loading)])
  const [entriesA, entriesB] = await Promise.all([
    entriesBeside(before, a, digestsOf(b.pages), loading),
    entriesBeside(after, b, digestsOf(a.pages), loading),
  ])
  const added = new Set<string>()
  const removed = new Set<string>()
  const changed = new Set<string>()
  for (const [key, print] of entriesB) {
    const known = entriesA.get(key)
    if (known === undefined) (key.includes('\0') ? changed : added).add(pathOf(key))
    else if (known !== print) changed.add(pathOf(key))
  }
  for (const key of entriesA.keys()) {
    if (!entriesB.has(key)) (key.includes('\0') ? changed : removed).add(pathOf(key))
  }
  for (const path of changed) if (added.has(path) || removed.has(path)) changed.delete(path)
  return { added: [...added].toSorted(), removed: [...removed].toSorted(), changed: [...changed].toSorted() }
}

interface Index {
  pages: readonly PageRef[]
  reader: RangeReader
}

async function indexOf({ source, generation }: DiffSide, options: LoadOptions): Promise<Index> {
  const { objects } = source
  return await orReclaimed(source, generation, async () => {
    const commit = await objects.readWhole(generation, options.signal)
    if (commit === undefined) throw new GoneObjectError(objects.nameOf(generation))
    return await openIndex(objects, commit, options)
  })
}

function digestsOf(pages: readonly PageRef[]): Set<string> {
  return new Set(pages.map(({ digest }) => digest.toString('hex')))
}

/** Entries of the pages that the other side lacks, each as a text that is equal where nothing but a time differs. */
async function entriesBeside(
  { source, generation }: DiffSide,
  { pages, reader }: Index,
  others: ReadonlySet<string>,
  options: LoadOptions,
): Promise<Map<string, string>> {
  const entries = new Map<string, string>()
  const own = pages.filter(({ digest }) => !others.has(digest.toString('hex')))
  await orReclaimed(source, generation, () =>
    reader.read(
      own,
      async (page, stored, range) => {
        if (options.slices.due) await options.slices.pause()
        for (const entry of decodeLeaf(expandPage(stored, page, range), range))
          entries.set(keyOf(entry), printOf(entry))
      },
      options,
    ),
  )
  return entries
}

function printOf(entry: IndexEntry): string {
  if (entry.type === 'link') return `link ${entry.target}`
  if (entry.type === 'dir') return `dir ${entry.mode}`
  const refs = entry.refs.map(({ digest }) => digest.toString('base64')).join(' ')
  return entry.type === 'more' ? refs : `file ${entry.mode} ${entry.size} ${entry.chunkSize} ${refs}`
}

function pathOf(key: string): string {
  const nul = key.indexOf('\0')
  return nul === -1 ? key : key.slice(0, nul)
}
