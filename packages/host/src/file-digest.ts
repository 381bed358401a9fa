import * as crypto from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** The digest of a file, and what the file was when it was opened. */
export interface FileDigest {
  /** 64 lowercase hex digits, of the first `bytes` bytes. */
  sha256: string
  /** Bytes hashed: fewer than asked for when the file ended before. */
  bytes: number
  /** Size when it was opened. */
  size: number
}

/** Code of the error for what is no regular file. */
export const NOT_A_FILE = 'ENOTREG'

const CHUNK_BYTES = 512 * 1024
const chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES)

/**
 * Opens a regular file for reading: never through a link at its own name, and never waiting for whoever might write to a
 * FIFO that took the name.
 *
 * @throws the system error; `ENOTREG` when it is no regular file, `ELOOP` when it is a link
 */
export function openRegular(path: string): { fd: number; size: number } {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const stats = fstatSync(fd)
    if (!stats.isFile()) throw Object.assign(new Error(`${path} is not a regular file`), { code: NOT_A_FILE, path })
    return { fd, size: stats.size }
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

/**
 * Reads `length` bytes from the start of an open file, in steps of at most 512 KiB, so that the caller can serve others in
 * between. `onChunk` must be done with the bytes when it returns: the buffer is used again.
 *
 * @returns bytes read: fewer when the file ended before
 */
export function* readSteps(fd: number, length: number, onChunk: (bytes: Buffer) => void): Generator<void, number> {
  let offset = 0
  while (offset < length) {
    const read = readSync(fd, chunk, 0, Math.min(CHUNK_BYTES, length - offset), offset)
    if (read === 0) break
    offset += read
    onChunk(read === CHUNK_BYTES ? chunk : chunk.subarray(0, read))
    if (offset < length) yield
  }
  return offset
}

/** Hashes the first `limit` bytes of a file, or all it had when it was opened, in steps. */
export function* hashSteps(path: string, limit?: number): Generator<void, FileDigest> {
  const { fd, size } = openRegular(path)
  try {
    const length = Math.min(size, limit ?? size)
    if (length <= CHUNK_BYTES) return { ...hashAtOnce(fd, length), size }
    const hash = crypto.createHash('sha256')
    const bytes = yield* readSteps(fd, length, (part) => hash.update(part))
    return { sha256: hash.digest('hex'), bytes, size }
  } finally {
    closeSync(fd)
  }
}

// Most files are small, and then half of the time of a hash object is making it.
function hashAtOnce(fd: number, length: number): { sha256: string; bytes: number } {
  let bytes = 0
  while (bytes < length) {
    const read = readSync(fd, chunk, bytes, length - bytes, bytes)
    if (read === 0) break
    bytes += read
  }
  return { sha256: crypto.hash('sha256', chunk.subarray(0, bytes), 'hex'), bytes }
}

/** Runs steps to their end at once. */
export function runSteps<T>(steps: Generator<void, T>): T {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}
