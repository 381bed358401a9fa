import { isUtf8 } from 'node:buffer'
import { ByteReader } from './bytes/byte-reader.ts'
import type { ByteWriter } from './bytes/byte-writer.ts'
import { DamagedObjectError, type ObjectRange, quote } from './bytes/damage.ts'
import { type ChunkRef, decodeChunk } from './bytes/chunk.ts'
import { MAX_PAGE_BYTES, MAX_TEXT_BYTES } from './bytes/limits.ts'
import { frameContentBytes } from './bytes/zstd.ts'

/** What a page holds: entries of the tree, pages of entries, or objects with payload. */
export type PageKind = 'leaf' | 'inner' | 'packs'

const MAGIC = Buffer.from('NXP1')
const KINDS: readonly PageKind[] = ['leaf', 'inner', 'packs']

/** Begins the bytes of a page. Items follow until its end. */
export function beginPage(to: ByteWriter, kind: PageKind): void {
  to.clear()
  to.raw(MAGIC)
  to.u8(KINDS.indexOf(kind))
}

/**
 * The bytes of a page, from those that are stored.
 *
 * @throws DamagedObjectError
 */
export function expandPage(stored: Buffer, ref: ChunkRef, range: ObjectRange): Buffer {
  const bytes = ref.codec === 'raw' ? stored.length : frameContentBytes(stored)
  if (bytes === undefined || bytes > MAX_PAGE_BYTES) {
    throw new DamagedObjectError(range, 'it is no zstd frame of a size that a page has')
  }
  return decodeChunk(stored, ref, range, { into: Buffer.allocUnsafe(bytes), rawLength: bytes })
}

/** @throws DamagedObjectError for anything but a page of this kind */
export function openPage(bytes: Buffer, kind: PageKind, range: ObjectRange): ByteReader {
  const from = new ByteReader(bytes, range)
  if (bytes.length > MAX_PAGE_BYTES) from.fail(`a page of ${bytes.length} bytes`)
  if (!from.raw(MAGIC.length).equals(MAGIC)) from.fail('it is no page')
  if (from.u8() !== KINDS.indexOf(kind)) from.fail(`it is no page of the kind "${kind}"`)
  return from
}

/** Writes keys, each as what it has in common with the one before and the rest. */
export class KeyWriter {
  #before = Buffer.alloc(0)

  write(to: ByteWriter, key: string): void {
    const bytes = Buffer.from(key)
    const most = Math.min(bytes.length, this.#before.length)
    let shared = 0
    while (shared < most && bytes[shared] === this.#before[shared]) shared++
    to.varint(shared)
    to.varint(bytes.length - shared)
    to.raw(bytes.subarray(shared))
    this.#before = bytes
  }
}

/** Reads what a {@link KeyWriter} wrote. */
export class KeyReader {
  readonly #bytes = Buffer.allocUnsafe(MAX_TEXT_BYTES)
  #length = 0

  read(from: ByteReader): string {
    const shared = from.varint()
    if (shared > this.#length) from.fail('a path shares more than the one before it has')
    const rest = from.varint()
    if (shared + rest > MAX_TEXT_BYTES) from.fail(`a path of ${shared + rest} bytes`)
    from.raw(rest).copy(this.#bytes, shared)
    this.#length = shared + rest
    const bytes = this.#bytes.subarray(0, this.#length)
    return readUtf8(bytes, from)
  }
}

/** A text of at most `maxBytes`, its length before it. */
export function readText(from: ByteReader, maxBytes: number): string {
  const length = from.varint()
  if (length > maxBytes) from.fail(`a text of ${length} bytes`)
  return readUtf8(from.raw(length), from)
}

export function writeText(to: ByteWriter, text: string): void {
  const bytes = Buffer.from(text)
  to.varint(bytes.length)
  to.raw(bytes)
}

/** @throws DamagedObjectError unless each key sorts behind the one before */
export function checkOrder(before: string | undefined, key: string, from: ByteReader): void {
  if (before !== undefined && before >= key) from.fail(`${quote(key)} is not in order`)
}

function readUtf8(bytes: Buffer, from: ByteReader): string {
  if (!isUtf8(bytes)) from.fail('a text is not UTF-8')
  return bytes.toString()
}
