import { keyFault } from '@nexus/objectstore'
import type { ByteReader } from './bytes/byte-reader.ts'
import { ByteWriter } from './bytes/byte-writer.ts'
import { readRef, writeRef, type ChunkRef } from './bytes/chunk.ts'
import { type ObjectRange, quote } from './bytes/damage.ts'
import { chunkCount, chunkLength, keyOf, type IndexEntry, type LinkEntry, type MoreEntry } from './index-entry.ts'
import { MAX_CHUNK_BYTES, MAX_ENTRY_REFS, MAX_TEXT_BYTES, MIN_CHUNK_BYTES } from './bytes/limits.ts'
import { beginPage, checkOrder, KeyReader, KeyWriter, openPage, readText, writeText } from './page.ts'

const TYPES: readonly IndexEntry['type'][] = ['file', 'dir', 'link', 'more']
const PERMISSION_BITS = 0o777
const SECOND_NS = 1_000_000_000n

/** The bytes of a page. */
export function encodeLeaf(entries: readonly IndexEntry[]): Buffer {
  const to = new ByteWriter()
  beginPage(to, 'leaf')
  const keys = new KeyWriter()
  for (const entry of entries) {
    keys.write(to, entry.path)
    writeEntry(to, entry)
  }
  return to.bytes
}

/** Everything of an entry but its path. */
export function writeEntry(to: ByteWriter, entry: IndexEntry): void {
  to.u8(TYPES.indexOf(entry.type))
  switch (entry.type) {
    case 'file':
      to.varint(entry.mode)
      writeTime(to, entry.mtimeNs)
      to.varint(entry.size)
      to.varint(entry.chunkSize)
      return writeRefs(to, entry.refs)
    case 'dir':
      return to.varint(entry.mode)
    case 'link':
      return writeText(to, entry.target)
    case 'more':
      to.varint(entry.first)
      return writeRefs(to, entry.refs)
  }
}

/**
 * The entries of a page, each sound by itself and in order. What they are together is for `TreeCheck` to say.
 *
 * @throws DamagedObjectError
 */
export function decodeLeaf(bytes: Buffer, range: ObjectRange): IndexEntry[] {
  const from = openPage(bytes, 'leaf', range)
  const keys = new KeyReader()
  const entries: IndexEntry[] = []
  let before: string | undefined
  while (!from.isAtEnd) {
    const entry = readEntry(from, keys.read(from))
    const key = keyOf(entry)
    checkOrder(before, key, from)
    before = key
    entries.push(entry)
  }
  return entries
}

function readEntry(from: ByteReader, path: string): IndexEntry {
  const fault = keyFault(path)
  if (fault !== undefined) from.fail(`it names ${quote(path)}, which ${fault}`)
  const type = TYPES[from.u8()]
  switch (type) {
    case 'file': {
      const mode = from.varint() & PERMISSION_BITS
      const mtimeNs = readTime(from)
      const size = from.varint()
      const chunkSize = from.varint()
      const isSize =
        chunkSize >= MIN_CHUNK_BYTES && chunkSize <= MAX_CHUNK_BYTES && Number.isInteger(Math.log2(chunkSize))
      if (!isSize) from.fail(`chunks of ${chunkSize} bytes`)
      const refs = readRefs(from)
      if (refs.length !== Math.min(chunkCount(size, chunkSize), MAX_ENTRY_REFS)) {
        from.fail(`${quote(path)} has ${size} bytes and ${refs.length} chunks of ${chunkSize}`)
      }
      for (const [index, ref] of refs.entries()) checkLength(from, ref, chunkLength(size, chunkSize, index))
      return { type, path, mode, mtimeNs, size, chunkSize, refs }
    }
    case 'dir':
      return { type, path, mode: from.varint() & PERMISSION_BITS }
    case 'link':
      return readLink(from, path)
    case 'more':
      return readMore(from, path)
    default:
      return from.fail(`${quote(path)} is of a kind that does not exist`)
  }
}

function readLink(from: ByteReader, path: string): LinkEntry {
  const target = readText(from, MAX_TEXT_BYTES)
  if (target === '' || target.includes('\0')) from.fail(`the link ${quote(path)} leads to no path`)
  return { type: 'link', path, target }
}

function readMore(from: ByteReader, path: string): MoreEntry {
  const first = from.varint()
  if (first === 0 || first % MAX_ENTRY_REFS !== 0 || first > 9_999_999_999) {
    from.fail(`${quote(path)} goes on at its chunk ${first}`)
  }
  const refs = readRefs(from)
  if (refs.length === 0) from.fail(`${quote(path)} goes on without chunks`)
  return { type: 'more', path, first, refs }
}

/** A chunk is stored as it is, or shorter. */
export function checkLength(from: ByteReader, { codec, length }: ChunkRef, rawLength: number): void {
  if (codec === 'raw' ? length === rawLength : length < rawLength) return
  from.fail(`a chunk of ${rawLength} bytes is stored in ${length} (${codec})`)
}

function writeRefs(to: ByteWriter, refs: readonly ChunkRef[]): void {
  to.varint(refs.length)
  for (const ref of refs) writeRef(to, ref)
}

function readRefs(from: ByteReader): ChunkRef[] {
  const count = from.varint()
  if (count > MAX_ENTRY_REFS) from.fail(`an entry of ${count} chunks`)
  const refs: ChunkRef[] = []
  for (let at = 0; at < count; at++) refs.push(readRef(from))
  return refs
}

// Seconds since the epoch, those before it as odd numbers, then nanoseconds: file systems have times that 64 bits of
// nanoseconds can't hold.
function writeTime(to: ByteWriter, timeNs: bigint): void {
  let seconds = timeNs / SECOND_NS
  let nanos = timeNs % SECOND_NS
  if (nanos < 0n) {
    seconds -= 1n
    nanos += SECOND_NS
  }
  const value = Number(seconds)
  to.varint(value < 0 ? -value * 2 - 1 : value * 2)
  to.u32(Number(nanos))
}

function readTime(from: ByteReader): bigint {
  const value = from.varint()
  const nanos = from.u32()
  if (nanos >= 1e9) from.fail('a time of more than a second of nanoseconds')
  const seconds = value % 2 === 1 ? -(value + 1) / 2 : value / 2
  return BigInt(seconds) * SECOND_NS + BigInt(nanos)
}
