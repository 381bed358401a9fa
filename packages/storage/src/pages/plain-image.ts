import { closeSync, fstatSync, openSync, read, readSync } from 'node:fs'
import { promisify } from 'node:util'
import { openWithoutWaiting } from '../open/connection.ts'
import type { Place } from '../open/place.ts'
import { pageSizeIn, type PageImage } from './pinned/page-image.ts'

const readAsync = promisify(read)
const HEADER_BYTES = 100

/**
 * Reads a small database into memory, in one read transaction, without waiting for any lock.
 *
 * @throws SQLite's error: `SQLITE_BUSY` while somebody else has the database for itself
 */
export function serializedImage(place: Place): PageImage {
  const db = openWithoutWaiting(place)
  try {
    const bytes = db.serialize()
    const pageSize = pageSizeIn(bytes)
    return {
      pageSize,
      pageCount: pageSize === 0 ? 0 : bytes.length / pageSize,
      read: (into, offsetBytes) => Promise.resolve(void bytes.copy(into, 0, offsetBytes)),
      close: () => undefined,
    }
  } finally {
    db.close()
  }
}

/** Reads a copy of a database that nothing is connected to. */
export function copiedImage(path: string): PageImage {
  const fd = openSync(path, 'r')
  const head = Buffer.alloc(HEADER_BYTES)
  const pageSize = pageSizeIn(head.subarray(0, readSync(fd, head, 0, HEADER_BYTES, 0)))
  return {
    pageSize,
    pageCount: pageSize === 0 ? 0 : fstatSync(fd).size / pageSize,
    read: async (into, offsetBytes) => void (await readAsync(fd, into, 0, into.length, offsetBytes)),
    close: () => closeSync(fd),
  }
}

/** An image that is only taken when somebody reads it: that of a state that a known one has not moved on from. */
export function lateImage(
  { pageSize, pageCount }: Pick<PageImage, 'pageSize' | 'pageCount'>,
  take: () => Promise<PageImage>,
): PageImage {
  let taken: Promise<PageImage> | undefined
  return {
    pageSize,
    pageCount,
    read: async (into, offsetBytes) => (await (taken ??= take())).read(into, offsetBytes),
    close: () =>
      void taken?.then(
        (image) => image.close(),
        () => undefined,
      ),
  }
}
