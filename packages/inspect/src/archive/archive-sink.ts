import type { ArchiveItem } from './archive-format.ts'

/** Mode and time of an item. */
export interface ItemAttributes {
  readonly mode: number
  readonly mtimeNs: bigint
}

/** What an archive is written to, item after item. */
export interface ArchiveSink {
  /** @param content of a file */
  add(item: ArchiveItem, attributes: ItemAttributes, content?: AsyncIterable<Uint8Array>): Promise<void>
  /** Resolves when all of it is on the disk. */
  finish(): Promise<void>
  /** Lets go of everything, at any moment. */
  destroy(): Promise<void>
}
