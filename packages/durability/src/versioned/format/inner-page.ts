import { ByteWriter } from './bytes/byte-writer.ts'
import { readRef, writeRef, type ChunkRef } from './bytes/chunk.ts'
import { type ObjectRange, quote } from './bytes/damage.ts'
import { MAX_PAGE_BYTES } from './bytes/limits.ts'
import { beginPage, checkOrder, KeyReader, KeyWriter, openPage } from './page.ts'

/** A page as it is listed. */
export interface PageRef extends ChunkRef {
  /** Sorts behind every key before this page, and not behind its first. Empty for the first page. */
  from: string
  /** Entries of the page, or of all pages below it. */
  entries: number
}

/** The bytes of a page that lists pages. */
export function encodeInner(pages: readonly PageRef[]): Buffer {
  const to = new ByteWriter()
  beginPage(to, 'inner')
  const keys = new KeyWriter()
  for (const page of pages) {
    keys.write(to, page.from)
    writePageRef(to, page)
  }
  return to.bytes
}

/** Everything of a listed page but its separator. */
export function writePageRef(to: ByteWriter, page: PageRef): void {
  to.varint(page.entries)
  writeRef(to, page)
}

/** @throws DamagedObjectError */
export function decodeInner(bytes: Buffer, range: ObjectRange): PageRef[] {
  const reader = openPage(bytes, 'inner', range)
  const keys = new KeyReader()
  const pages: PageRef[] = []
  while (!reader.isAtEnd) {
    const from = keys.read(reader)
    checkOrder(pages.at(-1)?.from, from, reader)
    const entries = reader.varint()
    if (entries === 0) reader.fail(`the page from ${quote(from)} is empty`)
    const ref = readRef(reader)
    if (ref.length > MAX_PAGE_BYTES) reader.fail(`a page of ${ref.length} bytes`)
    pages.push({ from, entries, ...ref })
  }
  return pages
}
