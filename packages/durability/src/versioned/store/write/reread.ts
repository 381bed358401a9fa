import { closeSync, fstatSync, readSync } from 'node:fs'
import { type Logger, type Slices, type TreeCursor, fileFault } from '@nexus/host'
import { sameFileStat, toFileStat } from '../../../tree/tree-stat.ts'
import { digestOf } from '../../format/bytes/chunk.ts'
import { chunkLength } from '../../format/index-entry.ts'
import type { FileRecord } from '../file-record.ts'
import type { RereadPosition, TreeState } from '../tree-state.ts'

/** What one snapshot rereads at most. */
const MAX_BYTES = 16 * 1024 * 1024

export interface RereadOptions {
  cursor: TreeCursor
  slices: Slices
  /** When to stop, in milliseconds. */
  maxMs: number
  logger: Logger
  sessionId: string
}

/**
 * Rereads content that counts as unchanged, from where the last snapshot stopped and round and round: a program that writes
 * through a shared mapping, or a disk that flips a bit, moves no time. What differs counts as changed from now on, and is told.
 *
 * @returns where the next snapshot goes on
 */
export async function rereadContent(
  state: TreeState,
  { cursor, slices, maxMs, logger, sessionId }: RereadOptions,
): Promise<RereadPosition | undefined> {
  const { paths, files, rereadFrom } = state
  const endMs = performance.now() + maxMs
  let bytes = 0
  let at = rereadFrom === undefined ? 0 : placeOf(paths, rereadFrom.path)
  let chunk = paths[at] === rereadFrom?.path ? (rereadFrom?.chunk ?? 0) : 0
  for (let left = paths.length; left > 0; left--) {
    const path = paths[at % paths.length] as string
    const record = files[path]
    if (record?.stat !== undefined) {
      const read = rereadFile(path, record, chunk, {
        cursor,
        isDue: () => bytes >= MAX_BYTES || performance.now() > endMs,
      })
      for (let step = read.next(); ; step = read.next()) {
        if (step.done === true) {
          if (step.value !== 'differs') break
          record.stat = undefined
          logger.warn(
            { session_id: sessionId, path },
            'the content of a file changed and its times did not: a program writes through a mapping, or the disk fails',
          )
          break
        }
        bytes += step.value.bytes
        chunk = step.value.chunk
        if (step.value.isDue) return { path, chunk }
        if (slices.due) await slices.pause()
      }
    }
    at++
    chunk = 0
  }
  return undefined
}

/** Gives how much was read and which chunk is next; returns whether something differs although the file looks the same. */
function* rereadFile(
  path: string,
  record: FileRecord,
  from: number,
  { cursor, isDue }: { cursor: TreeCursor; isDue: () => boolean },
): Generator<{ bytes: number; chunk: number; isDue: boolean }, 'same' | 'differs'> {
  let fd: number
  try {
    cursor.reset()
    fd = cursor.openFile(path)
  } catch (error) {
    fileFault(error, 'snapshot.reread', path)
    return 'same'
  }
  try {
    const buffer = Buffer.allocUnsafe(Math.max(1, Math.min(record.chunkSize, record.size)))
    for (let index = from; index < record.chunks.length; index++) {
      const length = chunkLength(record.size, record.chunkSize, index)
      const read = readSync(fd, buffer, 0, length, index * record.chunkSize)
      const digest = digestOf(buffer.subarray(0, read))
      if (!record.hasChunk(index, digest)) {
        const isSeen =
          record.stat === undefined || !sameFileStat(record.stat, toFileStat(fstatSync(fd, { bigint: true })))
        return isSeen ? 'same' : 'differs'
      }
      yield { bytes: length, chunk: index + 1, isDue: isDue() }
    }
    return 'same'
  } finally {
    closeSync(fd)
  }
}

/** The first place whose path isn't before this one. */
function placeOf(paths: readonly string[], path: string): number {
  let [low, high] = [0, paths.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((paths[middle] as string) < path) low = middle + 1
    else high = middle
  }
  return low
}
