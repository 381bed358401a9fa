import { crc32c } from '@nexus/host'
import type { Codec, StoredChunk } from './bytes/chunk.ts'
import { DamagedObjectError } from './bytes/damage.ts'
import { MAX_CHUNK_BYTES } from './bytes/limits.ts'

/** What a pack begins with. Chunks follow, each where the one before ends. */
export const PACK_MAGIC: Buffer = Buffer.from('NXK1')
const END_MAGIC = Buffer.from('1KXN')
const ITEM_BYTES = 40
const ZSTD = 0x8000_0000

/** The last bytes of a pack. */
export const PACK_FOOTER_BYTES = 24

/** A chunk as the table of contents of its pack has it. */
export interface PackItem {
  digest: Buffer
  offset: number
  length: number
  codec: Codec
  /** CRC32C of the stored bytes. */
  sum: number
}

/** Where the table of contents of a pack lies. */
export interface PackContents {
  offset: number
  items: number
  sum: number
}

/** What a table of contents says of a chunk. */
export function packItem({ digest, stored, codec }: StoredChunk, offset: number): PackItem {
  return { digest, offset, length: stored.length, codec, sum: crc32c(stored) }
}

/** What comes behind the chunks of a pack: its table of contents and its footer. */
export function encodePackEnd(items: readonly PackItem[]): Buffer {
  const last = items.at(-1)
  const tableBytes = items.length * ITEM_BYTES
  const bytes = Buffer.alloc(tableBytes + PACK_FOOTER_BYTES)
  for (const [at, { digest, length, codec, sum }] of items.entries()) {
    digest.copy(bytes, at * ITEM_BYTES)
    bytes.writeUInt32LE((codec === 'zstd' ? ZSTD : 0) + length, at * ITEM_BYTES + 32)
    bytes.writeUInt32LE(sum, at * ITEM_BYTES + 36)
  }
  bytes.writeBigUInt64LE(BigInt(last === undefined ? PACK_MAGIC.length : last.offset + last.length), tableBytes)
  bytes.writeUInt32LE(items.length, tableBytes + 8)
  bytes.writeUInt32LE(crc32c(bytes.subarray(0, tableBytes)), tableBytes + 12)
  END_MAGIC.copy(bytes, tableBytes + 16)
  bytes.writeUInt32LE(crc32c(bytes.subarray(tableBytes, tableBytes + 20)), tableBytes + 20)
  return bytes
}

/**
 * Where the table of contents lies, by the last 24 bytes of a pack.
 *
 * @throws DamagedObjectError
 */
export function decodePackFooter(bytes: Buffer, object: string, objectBytes: number): PackContents {
  const range = {
    object,
    offset: Math.max(0, objectBytes - PACK_FOOTER_BYTES),
    length: Math.min(PACK_FOOTER_BYTES, objectBytes),
  }
  const isFooter =
    bytes.length === PACK_FOOTER_BYTES &&
    bytes.subarray(16, 20).equals(END_MAGIC) &&
    bytes.readUInt32LE(20) === crc32c(bytes.subarray(0, 20))
  if (!isFooter) throw new DamagedObjectError(range, 'it does not end as a pack does: it was cut or overwritten')
  const offset = Number(bytes.readBigUInt64LE(0))
  const items = bytes.readUInt32LE(8)
  if (offset < PACK_MAGIC.length || offset + items * ITEM_BYTES + PACK_FOOTER_BYTES !== objectBytes) {
    throw new DamagedObjectError(range, `it has ${objectBytes} bytes, and says another number`)
  }
  return { offset, items, sum: bytes.readUInt32LE(12) }
}

/**
 * The table of contents of a pack.
 *
 * @param bytes from `offset` to the footer
 * @throws DamagedObjectError
 */
export function decodePackItems(bytes: Buffer, object: string, { offset, items, sum }: PackContents): PackItem[] {
  const range = { object, offset, length: bytes.length }
  if (bytes.length !== items * ITEM_BYTES || crc32c(bytes) !== sum) {
    throw new DamagedObjectError(range, 'the CRC32C of its table of contents is another')
  }
  const found: PackItem[] = []
  let at = PACK_MAGIC.length
  for (let item = 0; item < items; item++) {
    const row = item * ITEM_BYTES
    const packed = bytes.readUInt32LE(row + 32)
    const length = packed >= ZSTD ? packed - ZSTD : packed
    if (length < 1 || length > MAX_CHUNK_BYTES) throw new DamagedObjectError(range, `a chunk of ${length} stored bytes`)
    found.push({
      digest: bytes.subarray(row, row + 32),
      offset: at,
      length,
      codec: packed >= ZSTD ? 'zstd' : 'raw',
      sum: bytes.readUInt32LE(row + 36),
    })
    at += length
  }
  if (at !== offset)
    throw new DamagedObjectError(range, `its chunks end at byte ${at}, and its table begins at ${offset}`)
  return found
}

/**
 * Checks a pack that is there whole.
 *
 * @returns its table of contents
 * @throws DamagedObjectError
 */
export function decodePack(bytes: Buffer, object: string): PackItem[] {
  const footerAt = bytes.length - PACK_FOOTER_BYTES
  const contents = decodePackFooter(bytes.subarray(Math.max(0, footerAt)), object, bytes.length)
  if (!bytes.subarray(0, PACK_MAGIC.length).equals(PACK_MAGIC)) {
    throw new DamagedObjectError({ object, offset: 0, length: PACK_MAGIC.length }, 'it does not begin as a pack does')
  }
  const items = decodePackItems(bytes.subarray(contents.offset, footerAt), object, contents)
  for (const { offset, length, sum } of items) {
    if (crc32c(bytes.subarray(offset, offset + length)) !== sum) {
      throw new DamagedObjectError({ object, offset, length }, 'the CRC32C of a chunk is another')
    }
  }
  return items
}
