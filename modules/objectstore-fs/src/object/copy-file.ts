import type { BucketContext } from './bucket-context.ts'
import type { Call } from '../call.ts'
import { SOURCE_FLAGS, type SyncFileSystem } from '../disk/file-system.ts'

/** Which side of a copy failed. Errors of the local side carry the local path, so that they aren't taken for an outage. */
const LOCAL = Symbol('local')

/** Whether the failed call was about the caller's own file. */
export function isLocalError(error: unknown): boolean {
  return error instanceof Error && LOCAL in error
}

/** Runs file calls on the caller's own path and marks what they throw. */
export function onLocal<T>(path: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (error instanceof Error)
      Object.assign(error, { [LOCAL]: true, path: (error as NodeJS.ErrnoException).path ?? path })
    throw error
  }
}

/** The caller's file, open, with the size that counts: bytes appended later are left out. */
export interface LocalSource {
  path: string
  fd: number
  sizeBytes: number
}

/** Opens the file to upload. Only a regular file will do, and the open never blocks: on a FIFO it would. */
export function openLocalSource(fs: SyncFileSystem, path: string): LocalSource {
  return onLocal(path, () => {
    const fd = fs.openSync(path, SOURCE_FLAGS)
    try {
      const stat = fs.fstatSync(fd)
      if (stat.isFile()) return { path, fd, sizeBytes: stat.size }
      throw systemError(stat.isDirectory() ? 'EISDIR' : 'EINVAL', `${path} is not a regular file`, path)
    } catch (error) {
      fs.closeSync(fd)
      throw error
    }
  })
}

/** One direction of a copy. */
export interface CopyPlan {
  fromFd: number
  toFd: number
  /** First byte to take. */
  offset: number
  /** Bytes to take; the source must have them. */
  length: number
  /** Path of the source, for the error when it turns out shorter. */
  fromPath: string
  /** The side that is the caller's own file. */
  local: 'from' | 'to'
  localPath: string
}

/** How far a copy may get ahead of an fsync, so that the last one does not take minutes in silence. */
const SYNC_EVERY_BYTES = 64 * 1024 * 1024

/**
 * Copies bytes in synchronous steps of a chunk, reporting and giving others their turn between them. Every chunk goes
 * through the one buffer of the context.
 *
 * @param onChunk called with the bytes of each chunk; what it returns is awaited when more follow
 */
export async function copyBytes(
  { fs, chunk, failpoint }: BucketContext,
  plan: CopyPlan,
  onChunk: (bytes: number, last: boolean) => Promise<void> | undefined,
  syncEvery: boolean,
): Promise<void> {
  const atFrom = <T>(run: () => T): T => (plan.local === 'from' ? onLocal(plan.localPath, run) : run())
  const atTo = <T>(run: () => T): T => (plan.local === 'to' ? onLocal(plan.localPath, run) : run())
  let done = 0
  let unsynced = 0
  while (done < plan.length) {
    const want = Math.min(chunk.length, plan.length - done)
    const bytes = atFrom(() => fs.readSync(plan.fromFd, chunk, 0, want, plan.offset + done))
    if (bytes === 0) {
      const message = `${plan.fromPath} shrank to ${plan.offset + done} bytes while it was read`
      throw atFrom(() => systemError('EIO', message, plan.fromPath))
    }
    atTo(() => writeAll(fs, plan.toFd, chunk, bytes))
    done += bytes
    unsynced += bytes
    failpoint('fs:chunk-copied')
    if (syncEvery && unsynced >= SYNC_EVERY_BYTES) {
      fs.fdatasyncSync(plan.toFd)
      unsynced = 0
    }
    const turn = onChunk(bytes, done === plan.length)
    if (turn !== undefined) await turn
  }
}

/** How much is copied between two reports while the disk is fast. */
const REPORT_BYTES = 1024 * 1024

/** A chunk callback that reports totals of one object while it is under way. */
export function reportingChunks(call: Call): (bytes: number, last: boolean) => Promise<void> | undefined {
  let done = 0
  let reported = 0
  return (bytes, last) => {
    done += bytes
    // The last report comes with the answer, when the object is whole. On a slow disk the answer may be far: what the others
    // copy comes first.
    const isDue = call.turnIsOver || (!last && done - reported >= REPORT_BYTES)
    if (!isDue) return undefined
    reported = done
    return call.progress({ objects: 0, bytes: done })
  }
}

function writeAll(fs: SyncFileSystem, fd: number, data: Buffer, length: number): void {
  for (let done = 0; done < length;) done += fs.writeSync(fd, data, done, length - done, null)
}

export function systemError(code: string, message: string, path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: ${message}`), { code, path })
}
