import { closeSync, constants, openSync, readdirSync, readSync, writeSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fromSystemError } from '@nexus/errors'
import { LOCK_FILE, type Logger, type Slices } from '@nexus/host'
import { scrubCommitted } from '../../../layout/scrub-committed.ts'
import { type Restored, restoring, type StagedTree } from '../../../layout/staged-tree.ts'
import { type ChunkRef, decodeChunk, digestOf } from '../../format/bytes/chunk.ts'
import { chunkLength } from '../../format/index-entry.ts'
import type { FileRecord } from '../file-record.ts'
import type { RangeReader } from '../range-reader.ts'
import { committedOf, type TreeState } from '../tree-state.ts'

/** How files are brought back. */
export interface RestoreFilesOptions {
  slices: Slices
  /** Requests in flight. */
  concurrency: number
  signal?: AbortSignal | undefined
  /**
   * A tree that may hold some of the content already, under the same paths: it is taken from there where its digest is right.
   */
  reuseDir?: string | undefined
}

/** What was brought back, and from where. */
export interface RestoredFiles {
  objects: number
  bytes: number
  bytesFetched: number
}

/**
 * Fills a staged tree with the files of a commit.
 *
 * @throws as {@link restoreFiles} does
 */
export async function restoreTree(
  tree: StagedTree,
  loaded: { state: TreeState; reader: RangeReader },
  sessionId: string,
  options: RestoreFilesOptions & { logger: Logger },
): Promise<Restored> {
  const committed = committedOf(loaded.state)
  const content = await scrubCommitted(committed, sessionId, options.logger, options.slices)
  const { objects, bytes } = await restoreFiles(tree, loaded, content.objects, options)
  return { committed, content, objects, bytes }
}

/** Takes away what was restored of a commit that was reclaimed meanwhile. */
export async function emptyTree(tree: StagedTree, scratchDir: string): Promise<void> {
  for (const name of readdirSync(tree.dir)) {
    if (name === LOCK_FILE || name === basename(scratchDir)) continue
    await rm(join(tree.dir, name), { recursive: true, force: true })
  }
  tree.forget()
}

/** Where the bytes of a chunk go. */
interface Target {
  path: string
  position: number
}

interface WantedChunk extends ChunkRef {
  rawLength: number
  targets: Target[]
}

const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW

/**
 * Writes the content of files into a staged tree, every byte verified before it is written. Modes, times, links and directories
 * are left to the caller.
 *
 * @param paths of files of the state
 * @throws GoneObjectError, DamagedObjectError, what the store says, and `LOCAL_IO`
 */
export async function restoreFiles(
  tree: StagedTree,
  { state, reader }: { state: TreeState; reader: RangeReader },
  paths: readonly string[],
  options: RestoreFilesOptions,
): Promise<RestoredFiles> {
  const { slices, reuseDir } = options
  const wanted = new Map<number, WantedChunk>()
  let bytes = 0
  let bytesFetched = 0
  for (const path of paths) {
    if (slices.due) await slices.pause()
    const file = state.files[path]
    if (file === undefined) continue
    bytes += file.size
    const localPath = tree.place(path)
    restoring(path, () => closeSync(openSync(localPath, CREATE | constants.O_EXCL, 0o600)))
    const isThere =
      reuseDir === undefined ? undefined : await reuse(join(reuseDir, path), localPath, file, state, slices)
    for (const [index, id] of file.chunks.entries()) {
      if (isThere?.has(index) === true) continue
      const target = { path, position: index * file.chunkSize }
      const known = wanted.get(id)
      if (known !== undefined) known.targets.push(target)
      else {
        const rawLength = chunkLength(file.size, file.chunkSize, index)
        wanted.set(id, { ...state.table.ref(id), rawLength, targets: [target] })
      }
    }
  }
  const scratch = Buffer.allocUnsafe(MAX_RAW_BYTES)
  await reader.read(
    wanted.values(),
    async (chunk, stored, range) => {
      if (slices.due) await slices.pause()
      const { rawLength, targets } = chunk
      const content = decodeChunk(stored, chunk, range, { into: scratch, rawLength })
      bytesFetched += stored.length
      for (const { path, position } of targets) write(tree.place(path), path, content, position)
    },
    options,
  )
  return { objects: paths.length, bytes, bytesFetched }
}

const MAX_RAW_BYTES = 1024 * 1024

function write(localPath: string, path: string, content: Buffer, position: number): void {
  restoring(path, () => {
    const fd = openSync(localPath, constants.O_WRONLY | constants.O_NOFOLLOW)
    try {
      for (let at = 0; at < content.length;) at += writeSync(fd, content, at, content.length - at, position + at)
    } finally {
      closeSync(fd)
    }
  })
}

/** Copies the chunks that a local file has at their places. Returns which these are. */
async function reuse(
  from: string,
  to: string,
  file: FileRecord,
  state: TreeState,
  slices: Slices,
): Promise<Set<number>> {
  const found = new Set<number>()
  let source: number
  try {
    source = openSync(from, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch {
    return found
  }
  const target = openSync(to, constants.O_WRONLY | constants.O_NOFOLLOW)
  try {
    const buffer = Buffer.allocUnsafe(Math.min(file.chunkSize, Math.max(file.size, 1)))
    for (const [index, id] of file.chunks.entries()) {
      if (slices.due) await slices.pause()
      const length = chunkLength(file.size, file.chunkSize, index)
      const position = index * file.chunkSize
      if (readSync(source, buffer, 0, length, position) !== length) break
      const content = buffer.subarray(0, length)
      if (!digestOf(content).equals(state.table.digest(id))) continue
      for (let at = 0; at < length;) at += writeSync(target, content, at, length - at, position + at)
      found.add(index)
    }
  } catch (error) {
    throw fromSystemError(error, 'hydrate.restore', to)
  } finally {
    closeSync(source)
    closeSync(target)
  }
  return found
}
