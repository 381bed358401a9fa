import { readSync } from 'node:fs'
import { digestOf, encodeChunk, type StoredChunk } from '../format/bytes/chunk.ts'

/** What a reading of a file goes by. */
export interface ChunkSteps {
  /** Bytes from the start that are read; fewer when the file ends before. */
  limit: number
  chunkSize: number
  /** Whether a chunk with this digest needn't be stored. */
  isKnown: (digest: Buffer) => boolean
}

/** One chunk of a file, with its bytes where they are to be stored. */
export interface ReadChunk {
  digest: Buffer
  stored: StoredChunk | undefined
}

/**
 * Reads an open file chunk by chunk. A chunk's digest is that of the very bytes that are stored, whatever writes to the file
 * meanwhile.
 *
 * @returns bytes read
 */
export function* chunkSteps(fd: number, { limit, chunkSize, isKnown }: ChunkSteps): Generator<ReadChunk, number> {
  const buffer = Buffer.allocUnsafe(Math.min(chunkSize, Math.max(limit, 1)))
  let offset = 0
  // What doesn't compress at its beginning is taken for what doesn't compress at all.
  let compressible = true
  while (offset < limit) {
    const wanted = Math.min(chunkSize, limit - offset)
    const bytes = buffer.subarray(0, readWhole(fd, buffer, wanted, offset))
    offset += bytes.length
    if (bytes.length === 0) break
    const digest = digestOf(bytes)
    if (isKnown(digest)) {
      yield { digest, stored: undefined }
      if (bytes.length < wanted) break
      continue
    }
    const chunk = encodeChunk(bytes, digest, compressible)
    if (chunk.codec === 'raw') {
      compressible &&= bytes.length < MIN_PROOF_BYTES
      yield { digest, stored: { ...chunk, stored: Buffer.from(bytes) } }
    } else yield { digest, stored: { ...chunk, stored: Buffer.from(chunk.stored) } }
    // It has become shorter: what would follow is no neighbour of this chunk.
    if (bytes.length < wanted) break
  }
  return offset
}

/** A chunk that is too short to tell whether the rest would compress. */
const MIN_PROOF_BYTES = 4096

function readWhole(fd: number, buffer: Buffer, length: number, position: number): number {
  let read = 0
  while (read < length) {
    const n = readSync(fd, buffer, read, length - read, position + read)
    if (n === 0) break
    read += n
  }
  return read
}
