import type { DatabaseInstant, PageRange, StorageManager } from '@nexus/storage'

/** Bytes `offset` to `offset + length - 1`. */
export interface ByteRange {
  readonly offset: number
  readonly length: number
}

/** One database as of one instant, readable until it is released. */
export interface DatabaseImage {
  readonly livePath: string
  readonly sizeBytes: number
  /** 0 for a database without pages. */
  readonly pageSize: number
  /** What a chunk of it measures: as asked for, or a page if that is larger. */
  readonly chunkBytes: number
  /** Names this instant: hand it to the next capture once its content is in a commit. */
  readonly instant: string
  /** Whether everything is to be read, because nothing is known of what changed. */
  readonly full: boolean
  /**
   * Chunks that may differ from those of the instant that was compared with, ascending and disjoint: whole chunks, the last one
   * cut at the end of the image. What isn't in them is the same, byte for byte. Everything when `full`.
   */
  readonly changedRanges: readonly ByteRange[]
  /** Reads bytes, best some hundred KiB at a time; a range is cut at the end of the image. Throws as `DatabaseInstant.read` does. */
  read(offset: number, length: number): Promise<Buffer>
  /** Says that a reread found these bytes different although they were not in `changedRanges`. The next image is full. */
  distrust(ranges: readonly ByteRange[]): void
  /** Ends reading; do so before the upload. A second call does nothing. */
  release(): void
}

/** How databases come into a commit page by page. */
export interface DatabasePages {
  /**
   * Takes all databases of the session, each as of one instant, all or none. One whose file was deleted is left out.
   *
   * @param dir a fresh directory for copies that can't be done without; removed by the caller after the images were released
   * @param since by live path, the `instant` that the parent commit holds; a database without one is read in full
   */
  capture(
    dir: string,
    since: ReadonlyMap<string, string>,
    signal: AbortSignal | undefined,
  ): Promise<readonly DatabaseImage[]>
}

/** The pages of the databases of a storage manager, in chunks of at least `minChunkBytes`, a power of two. */
export function pagesOf(storage: StorageManager, minChunkBytes: number): DatabasePages {
  return {
    capture: async (dir, since, signal) => {
      const instants = await storage.capture('session', dir, { since, signal })
      return instants.map((instant) => imageOf(instant, minChunkBytes))
    },
  }
}

function imageOf(instant: DatabaseInstant, minChunkBytes: number): DatabaseImage {
  const { livePath, id, pageSize, pageCount, kind, changed } = instant
  const chunkBytes = Math.max(minChunkBytes, pageSize)
  const sizeBytes = pageSize * pageCount
  return {
    livePath,
    sizeBytes,
    pageSize,
    chunkBytes,
    instant: id,
    full: kind === 'full',
    changedRanges: chunksOf(changed, { pageSize, chunkBytes, sizeBytes }),
    read: (offset, length) => instant.read(offset, length),
    distrust: (ranges) => instant.distrust(ranges.map((range) => pagesIn(range, pageSize))),
    release: () => instant.release(),
  }
}

/** The chunks that hold any of the pages, cut at the end of the image; neighbours are joined. */
export function chunksOf(
  pages: readonly PageRange[],
  { pageSize, chunkBytes, sizeBytes }: { pageSize: number; chunkBytes: number; sizeBytes: number },
): ByteRange[] {
  const chunks: { offset: number; length: number }[] = []
  for (const { first, count } of pages) {
    const offset = Math.floor(((first - 1) * pageSize) / chunkBytes) * chunkBytes
    const end = Math.min(Math.ceil(((first - 1 + count) * pageSize) / chunkBytes) * chunkBytes, sizeBytes)
    const last = chunks.at(-1)
    if (last !== undefined && offset <= last.offset + last.length)
      last.length = Math.max(last.length, end - last.offset)
    else if (end > offset) chunks.push({ offset, length: end - offset })
  }
  return chunks
}

function pagesIn({ offset, length }: ByteRange, pageSize: number): PageRange {
  const first = Math.floor(offset / pageSize) + 1
  return { first, count: Math.ceil((offset + length) / pageSize) - first + 1 }
}
