import type { ObjectStore } from '@nexus/objectstore'
import { type IndexEntry, keyOf } from '../format/index-entry.ts'
import type { PageRef } from '../format/inner-page.ts'
import { decodeLeaf } from '../format/leaf-page.ts'
import { expandPage } from '../format/page.ts'
import { openIndex } from '../store/read/load-tree.ts'
import type { RangeReader } from '../store/range-reader.ts'
import {
  type HistoryOptions,
  type HistorySource,
  orReclaimed,
  readableGeneration,
  readCommit,
  withSource,
} from './history-source.ts'

/** What differs between two trees. Paths are sorted. */
export interface SessionDiff {
  /** What was compared. */
  before: { id: string; generation: number }
  after: { id: string; generation: number }
  added: string[]
  removed: string[]
  /** Other content, another mode, another target, or another kind. A time alone is no difference. */
  changed: string[]
}

/** One side of a comparison; the newest generation where none is named. */
export interface DiffSide {
  id: string
  generation?: number | undefined
}

/**
 * Compares two commits, of one versioned session or of two. Pages that both have aren't read, so that trees which hardly differ
 * are compared in the time that the difference takes.
 *
 * @throws NexusError `NOT_FOUND` for a session without commits or a generation that was reclaimed, `CORRUPT`
 * @see docs/guides/time-travel.md
 */
export async function diffSessions(
  store: ObjectStore,
  before: DiffSide,
  after: DiffSide,
  options: HistoryOptions = {},
): Promise<SessionDiff> {
  return await withSource(store, before.id, options, (sourceA) =>
    withSource(store, after.id, options, async (sourceB) => {
      const [a, b] = await Promise.all([indexOf(sourceA, before), indexOf(sourceB, after)])
      const [entriesA, entriesB] = await Promise.all([
        entriesBeside(a, digestsOf(b.pages)),
        entriesBeside(b, digestsOf(a.pages)),
      ])
      const sides = {
        before: { id: before.id, generation: a.generation },
        after: { id: after.id, generation: b.generation },
      }
      return { ...sides, ...compare(entriesA, entriesB) }
    }),
  )
}

function compare(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): Omit<SessionDiff, 'before' | 'after'> {
  const added = new Set<string>()
  const removed = new Set<string>()
  const changed = new Set<string>()
  for (const [key, print] of after) {
    const known = before.get(key)
    if (known === undefined) (key.includes('\0') ? changed : added).add(pathOf(key))
    else if (known !== print) changed.add(pathOf(key))
  }
  for (const key of before.keys()) {
    if (!after.has(key)) (key.includes('\0') ? changed : removed).add(pathOf(key))
  }
  for (const path of changed) if (added.has(path) || removed.has(path)) changed.delete(path)
  return { added: [...added].toSorted(), removed: [...removed].toSorted(), changed: [...changed].toSorted() }
}

interface Index {
  source: HistorySource
  generation: number
  pages: readonly PageRef[]
  reader: RangeReader
}

async function indexOf(source: HistorySource, side: DiffSide): Promise<Index> {
  const generation = await readableGeneration(source, side.generation)
  return await orReclaimed(source, generation, async () => {
    const commit = await readCommit(source, generation)
    return { source, generation, ...(await openIndex(source.objects, commit, source.loading)) }
  })
}

function digestsOf(pages: readonly PageRef[]): Set<string> {
  return new Set(pages.map(({ digest }) => digest.toString('hex')))
}

/** Entries of the pages that the other side lacks, each as a text that is equal where nothing but a time differs. */
async function entriesBeside(
  { source, generation, pages, reader }: Index,
  others: ReadonlySet<string>,
): Promise<Map<string, string>> {
  const { loading } = source
  const entries = new Map<string, string>()
  const own = pages.filter(({ digest }) => !others.has(digest.toString('hex')))
  await orReclaimed(source, generation, () =>
    reader.read(
      own,
      async (page, stored, range) => {
        if (loading.slices.due) await loading.slices.pause()
        for (const entry of decodeLeaf(expandPage(stored, page, range), range))
          entries.set(keyOf(entry), printOf(entry))
      },
      loading,
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
