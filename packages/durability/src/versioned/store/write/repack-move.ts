import { closeSync, readSync } from 'node:fs'
import { isNexusError } from '@nexus/errors'
import { type Logger, type Slices, type TreeCursor, fileFault } from '@nexus/host'
import { type ChunkRef, decodeChunk, digestOf, encodeChunk } from '../../format/bytes/chunk.ts'
import { chunkLength } from '../../format/index-entry.ts'
import type { PackEntry } from '../../format/pack-table-page.ts'
import { chooseRepack } from './repack.ts'
import { readerOf } from '../read/load-tree.ts'
import type { SessionObjects } from '../session-objects.ts'
import type { TreeDraft } from './tree-draft.ts'
import type { TreeState } from '../tree-state.ts'

/** What payload is moved with. */
export interface MoveOptions {
  parent: TreeState
  draft: TreeDraft
  /** Of the commit that is being made. */
  generation: number
  objects: SessionObjects
  cursor: TreeCursor
  slices: Slices
  concurrency: number
  logger: Logger
  signal: AbortSignal | undefined
}

/** A chunk that moves, and the files that have it. */
interface Moving {
  id: number
  paths: Set<string>
  path: string
  index: number
}

/**
 * Stores once more what lies in objects that the tree should leave: from the files on this disk where they still hold it, else
 * from the store.
 *
 * @returns the objects that are left, by number
 */
export async function moveOut(options: MoveOptions): Promise<ReadonlySet<number>> {
  const { parent, generation } = options
  const emptied = new Set(chooseRepack(liveEntries(parent), generation))
  if (emptied.size === 0) return emptied
  const moving = await findMoving(options, emptied)
  const remote: (ChunkRef & { moving: Moving; rawLength: number })[] = []
  for (const each of moving.values()) {
    if (options.slices.due) await options.slices.pause()
    const rawLength = rawLengthOf(each, options.draft)
    const bytes = readLocal(each, rawLength, options)
    if (bytes === undefined) remote.push({ ...options.draft.table.ref(each.id), moving: each, rawLength })
    else await options.draft.move(each.id, encodeChunk(bytes, digestOf(bytes)), each.paths)
  }
  try {
    await readerOf(options.objects, parent).read(
      remote,
      async (ref, stored, range) => {
        const { rawLength } = ref
        const bytes = decodeChunk(stored, ref, range, { into: Buffer.alloc(rawLength), rawLength })
        await options.draft.move(ref.moving.id, encodeChunk(bytes, digestOf(bytes)), ref.moving.paths)
      },
      options,
    )
  } catch (error) {
    options.signal?.throwIfAborted()
    if (!isNexusError(error)) throw error
    // The commit is as good without: what can't be moved stays where it is, and is tried again by the next one.
    options.logger.warn({ err: error, generation }, 'payload of older commits could not be moved')
  }
  return emptied
}

/** The objects of a tree with all live bytes in them, those of pages too. */
export function liveEntries({ packs, pages, innerPages, packPages }: TreeState): PackEntry[] {
  const live = new Map<number, PackEntry>()
  for (const [n, pack] of packs) live.set(n, { ...pack })
  for (const { n, length } of [...pages.map(({ ref }) => ref), ...innerPages, ...packPages]) {
    const pack = live.get(n)
    if (pack !== undefined) pack.live += length
  }
  return [...live.values()]
}

async function findMoving(
  { draft, parent, slices }: MoveOptions,
  emptied: ReadonlySet<number>,
): Promise<Map<number, Moving>> {
  const { table } = draft
  const moving = new Map<number, Moving>()
  const look = (path: string): void => {
    for (const [index, id] of draft.file(path)?.chunks.entries() ?? []) {
      if (table.uses(id) === 0 || !emptied.has(table.packOf(id))) continue
      const known = moving.get(id)
      if (known === undefined) moving.set(id, { id, paths: new Set([path]), path, index })
      else known.paths.add(path)
    }
  }
  for (const path of parent.paths) {
    if (slices.due) await slices.pause()
    look(path)
  }
  for (const path of draft.changes.keys()) if (parent.files[path] === undefined) look(path)
  return moving
}

function rawLengthOf({ path, index }: Moving, draft: TreeDraft): number {
  const file = draft.file(path)
  return file === undefined ? 0 : chunkLength(file.size, file.chunkSize, index)
}

/** The bytes of a chunk from the tree; undefined where it doesn't hold them any more. */
function readLocal({ id, path, index }: Moving, length: number, { draft, cursor }: MoveOptions): Buffer | undefined {
  const file = draft.file(path)
  if (file === undefined) return undefined
  try {
    cursor.reset()
    const fd = cursor.openFile(path)
    try {
      const bytes = Buffer.allocUnsafe(length)
      const read = readSync(fd, bytes, 0, length, index * file.chunkSize)
      return read === length && digestOf(bytes).equals(draft.table.digest(id)) ? bytes : undefined
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    fileFault(error, 'snapshot.move', path)
    return undefined
  }
}
