import * as crypto from 'node:crypto'
import { DamagedObjectError, type ObjectRange } from './damage.ts'
import type { ByteReader } from './byte-reader.ts'
import type { ByteWriter } from './byte-writer.ts'
import { MAX_CHUNK_BYTES } from './limits.ts'
import { compress, decompressInto } from './zstd.ts'

/** How bytes are stored: as they are, or as one zstd frame that is shorter. */
export type Codec = 'raw' | 'zstd'

/** Where bytes lie that were stored once: a chunk of a file, or a page of the index. */
export interface ChunkRef {
  /** 32 bytes, of the bytes before compression. */
  digest: Buffer
  /** The object that holds it, by its number in the pack table. */
  n: number
  /** From the beginning of a pack's bytes, or of what follows the header of a commit. */
  offset: number
  /** Stored bytes, at least 1. */
  length: number
  codec: Codec
}

/** Bytes ready to be stored. */
export interface StoredChunk {
  digest: Buffer
  stored: Uint8Array
  codec: Codec
}

/** Less than this saved is not worth a decompression. */
const MIN_SAVED_SHARE = 1 / 32

/** The digest that a chunk is known by. */
export function digestOf(bytes: Uint8Array): Buffer {
  return crypto.createHash('sha256').update(bytes).digest()
}

/**
 * @param compressible false: it isn't tried
 */
export function encodeChunk(bytes: Uint8Array, digest: Buffer, compressible = true): StoredChunk {
  const frame = compressible ? compress(bytes) : bytes
  return frame.length < bytes.length * (1 - MIN_SAVED_SHARE)
    ? { digest, stored: frame, codec: 'zstd' }
    : { digest, stored: bytes, codec: 'raw' }
}

/**
 * The bytes of a chunk, which are exactly those that were stored.
 *
 * @param rawLength bytes it has; a page is only known to have at most `into.length`
 * @param into room for them; what is returned lies there, or in `stored`
 * @throws DamagedObjectError
 */
export function decodeChunk(
  stored: Buffer,
  ref: ChunkRef,
  range: ObjectRange,
  { into, rawLength }: { into: Buffer; rawLength?: number },
): Buffer {
  const bytes =
    ref.codec === 'raw' ? stored : expand(stored, rawLength === undefined ? into : into.subarray(0, rawLength))
  if (stored.length !== ref.length) throw new DamagedObjectError(range, `only ${stored.length} bytes of it are there`)
  if (bytes === undefined) throw new DamagedObjectError(range, 'it is no zstd frame of the size it should have')
  if (rawLength !== undefined && bytes.length !== rawLength) {
    throw new DamagedObjectError(range, `it holds ${bytes.length} bytes in the place of ${rawLength}`)
  }
  if (!digestOf(bytes).equals(ref.digest)) throw new DamagedObjectError(range, 'its sha256 is another')
  return bytes
}

function expand(stored: Buffer, into: Buffer): Buffer | undefined {
  const length = decompressInto(into, stored)
  return length === undefined ? undefined : into.subarray(0, length)
}

/** 32 bytes of digest, number of the pack, offset, and twice the stored length, plus one for zstd. */
export function writeRef(to: ByteWriter, { digest, n, offset, length, codec }: ChunkRef): void {
  to.raw(digest)
  to.varint(n)
  to.varint(offset)
  to.varint(length * 2 + (codec === 'zstd' ? 1 : 0))
}

export function readRef(from: ByteReader): ChunkRef {
  const digest = from.raw(32)
  const n = from.varint()
  const offset = from.varint()
  const packed = from.varint()
  const length = Math.floor(packed / 2)
  if (length < 1 || length > MAX_CHUNK_BYTES) from.fail(`a chunk of ${length} stored bytes`)
  return { digest, n, offset, length, codec: packed % 2 === 1 ? 'zstd' : 'raw' }
}
