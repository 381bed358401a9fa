import * as crypto from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs'

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
 * Opens a regular file for reading: never through a link at its own name, and never waiting for a writer of a
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

/** What {@link hashSteps} does besides hashing. */
export interface HashOptions {
  /** Bytes from the start; default: all it had when it was opened. */
  limit?: number | undefined
  /** A descriptor that is given the very bytes that are hashed, from its start. */
  copyTo?: number | undefined
}

/**
 * Hashes a file in steps: one named by its path, or one that the caller has open and closes.
 *
 * @throws the system error of reading, or of writing the copy
 */
export function* hashSteps(file: string | number, { limit, copyTo }: HashOptions = {}): Generator<void, FileDigest> {
  const { fd, size } = typeof file === 'string' ? openRegular(file) : { fd: file, size: fstatSync(file).size }
  try {
    const length = Math.min(size, limit ?? size)
    if (length <= CHUNK_BYTES) return { ...hashAtOnce(fd, length, copyTo), size }
    const hash = crypto.createHash('sha256')
    let written = 0
    const bytes = yield* readSteps(fd, length, (part) => {
      hash.update(part)
      if (copyTo !== undefined) written += writeWhole(copyTo, part, written)
    })
    return { sha256: hash.digest('hex'), bytes, size }
  } finally {
    if (typeof file === 'string') closeSync(fd)
  }
}

// Most files are small, and then half of the time of a hash object is making it.
function hashAtOnce(fd: number, length: number, copyTo: number | undefined): { sha256: string; bytes: number } {
  let bytes = 0
  while (bytes < length) {
    const read = readSync(fd, chunk, bytes, length - bytes, bytes)
    if (read === 0) break
    bytes += read
  }
  const content = chunk.subarray(0, bytes)
  if (copyTo !== undefined) writeWhole(copyTo, content, 0)
  return { sha256: crypto.hash('sha256', content, 'hex'), bytes }
}

function writeWhole(fd: number, bytes: Buffer, position: number): number {
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at, bytes.length - at, position + at)
  return bytes.length
}

/** Runs steps to their end at once. */
export function runSteps<T>(steps: Generator<void, T>): T {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}
