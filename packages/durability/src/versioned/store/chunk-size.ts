import type { FileRecord } from './file-record.ts'

const CHUNK_BYTES = 64 * 1024
/** Databases change in pages: small chunks cost a little more to store whole and much less to store a few rows. */
export const DATABASE_CHUNK_BYTES: number = 16 * 1024
const HUGE_CHUNK_BYTES = 1024 * 1024
const HUGE_BYTES = 1024 * 1024 * 1024
const MAX_PAGE_BYTES = 64 * 1024

/** What decides the chunk size of a file that is new. */
export interface NewFile {
  size: number
  isDatabase: boolean
  /** Of the database; 0 where that isn't known. */
  pageSize: number
}

/** The size of the chunks of a file, in bytes: the one it has, for as long as it lives. */
export function chunkSizeOf(before: FileRecord | undefined, { size, isDatabase, pageSize }: NewFile): number {
  if (before !== undefined) return before.chunkSize
  // Of 512 to 65,536 bytes, and a power of two: anything else is no page size.
  const isPageSize = pageSize <= MAX_PAGE_BYTES && Number.isInteger(Math.log2(pageSize))
  if (isDatabase) return isPageSize ? Math.max(DATABASE_CHUNK_BYTES, pageSize) : DATABASE_CHUNK_BYTES
  return size > HUGE_BYTES ? HUGE_CHUNK_BYTES : CHUNK_BYTES
}
