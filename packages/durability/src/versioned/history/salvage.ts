import { isNexusError } from '@nexus/errors'
import { type ChunkRef, decodeChunk } from '../format/bytes/chunk.ts'
import type { ObjectRange } from '../format/bytes/damage.ts'
import { MAX_CHUNK_BYTES } from '../format/bytes/limits.ts'
import { chunkLength } from '../format/index-entry.ts'
import { type LoadedTree, loadLeftTree } from '../store/read/load-tree.ts'
import { GoneObjectError, type RangeReader } from '../store/range-reader.ts'
import type { HistorySource } from './history-source.ts'

/** Something of a tree that can't be had, and why. */
export interface LostPart {
  /** A path; for what an unreadable page of the index held, the first key that it may have held and `…`. */
  path: string
  /** Which object is damaged or gone, and where. */
  why: string
}

/** A chunk of a tree, and the files that hold it. */
export interface TreeChunk extends ChunkRef {
  id: number
  rawLength: number
}

/**
 * Opens a generation as far as it can be read: pages of the index that are damaged are left out.
 *
 * @throws NexusError `CORRUPT` when its header or its table of objects is damaged: nothing leads to its content then
 */
export async function loadIntact(
  { objects, loading }: HistorySource,
  generation: number,
): Promise<{ loaded: LoadedTree; lost: LostPart[] }> {
  const commit = await objects.readDamaged(generation, loading.signal)
  if (commit === undefined) throw new GoneObjectError(objects.nameOf(generation))
  const lost: LostPart[] = []
  const loaded = await loadLeftTree(objects, commit, loading, (path, error) => {
    lost.push({ path, why: error.message })
  })
  return { loaded, lost }
}

/** The tree without the files that are damaged. Reads all of its content. */
export async function withoutDamage(
  source: HistorySource,
  { loaded, lost }: { loaded: LoadedTree; lost: LostPart[] },
): Promise<{ loaded: LoadedTree; lost: LostPart[] }> {
  const { state } = loaded
  const damaged = await damagedChunks(source, loaded)
  const paths: string[] = []
  for (const path of state.paths) {
    const bad = state.files[path]?.chunks.find((id) => damaged.has(id))
    if (bad === undefined) paths.push(path)
    else {
      lost.push({ path, why: damaged.get(bad)?.message ?? '' })
      delete state.files[path]
    }
  }
  state.paths = paths
  return { loaded, lost: lost.toSorted((a, b) => (a.path < b.path ? -1 : 1)) }
}

/** Every chunk of a tree once. */
export function* chunksOf({ state }: LoadedTree): Generator<TreeChunk> {
  const seen = new Set<number>()
  for (const path of state.paths) {
    const file = state.files[path]
    for (const [index, id] of file?.chunks.entries() ?? []) {
      if (file === undefined || seen.has(id)) continue
      seen.add(id)
      yield { ...state.table.ref(id), id, rawLength: chunkLength(file.size, file.chunkSize, index) }
    }
  }
}

/** Reads every chunk of a tree. Gives those that can't be had, by id, each with its reason. */
export async function damagedChunks({ loading }: HistorySource, loaded: LoadedTree): Promise<Map<number, Error>> {
  const damaged = new Map<number, Error>()
  const scratch = Buffer.allocUnsafe(MAX_CHUNK_BYTES)
  await readWhatIsLeft(
    loaded.reader,
    // Neighbours lie beside each other, so that halving finds what is damaged soon.
    [...chunksOf(loaded)].toSorted((a, b) => a.n - b.n || a.offset - b.offset),
    (chunk, stored, range) => {
      decodeChunk(stored, chunk, range, { into: scratch, rawLength: chunk.rawLength })
    },
    { ...loading, lost: ({ id }, error) => damaged.set(id, error) },
  )
  return damaged
}

/** Reads items; a batch that fails is halved until what fails is alone. An item may be given twice. */
export async function readWhatIsLeft<T extends ChunkRef>(
  reader: RangeReader,
  items: readonly T[],
  take: (item: T, stored: Buffer, range: ObjectRange) => void | Promise<void>,
  options: HistorySource['loading'] & { lost: (item: T, error: Error) => void },
): Promise<void> {
  if (items.length === 0) return
  try {
    await reader.read(items, take, options)
  } catch (error) {
    if (!isNexusError(error, 'CORRUPT') && !(error instanceof GoneObjectError)) throw error
    const [first] = items
    if (items.length === 1 && first !== undefined) return options.lost(first, error)
    const middle = Math.ceil(items.length / 2)
    await readWhatIsLeft(reader, items.slice(0, middle), take, options)
    await readWhatIsLeft(reader, items.slice(middle), take, options)
  }
}
