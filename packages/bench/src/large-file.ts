import { randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'

/** Where a session has its one large file. */
export const LARGE_FILE = 'files/large.bin'

const CHUNK_BYTES = 1024 * 1024

/** Writes a file of random bytes, in small pieces. */
export function createLargeFile(path: string, sizeBytes: number): void {
  mkdirSync(dirname(path), { recursive: true })
  const fd = openSync(path, 'w')
  const chunk = randomBytes(CHUNK_BYTES)
  for (let written = 0; written < sizeBytes; written += CHUNK_BYTES) {
    chunk.writeUInt32LE(written / CHUNK_BYTES)
    writeSync(fd, chunk)
  }
  closeSync(fd)
}
