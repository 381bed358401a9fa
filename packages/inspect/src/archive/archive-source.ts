import type { ArchiveItem } from './archive-format.ts'

/** What an archive is read from. It gives what is asked for, in the order of the archive, and nothing else. */
export interface ArchiveSource {
  /**
   * The next item, which must be this one.
   *
   * @returns the content of a file, which must be read to its end before anything else is asked for; undefined for the rest
   * @throws NexusError `CORRUPT` when it is another, or is not there
   */
  take(item: ArchiveItem): Promise<AsyncIterable<Uint8Array> | undefined>
  /** A small file whole: the next item, of a size that is not known. */
  takeText(name: string, mostBytes: number): Promise<Buffer>
  /** From now on no more than this may be in it, so that a small archive can't fill a disk. */
  expect(totalBytes: number): void
  /** Rejects with `CORRUPT` unless the archive ends here, as one that was written whole does. */
  finish(): Promise<void>
  close(): Promise<void>
}
