import { readSync } from 'node:fs'

const HEADER_BYTES = 48
const BACKFILL_AT = 2 * HEADER_BYTES
const VERSION = 3_007_000
const CHECKED_BYTES = 40

/** The header of a WAL index (`-shm`): what a reader that begins now sees. */
export interface WalIndex {
  /** All of it: two headers are the same state exactly when these are equal. */
  readonly header: Buffer
  /** In bytes; 0 before the first frame. */
  readonly pageSize: number
  /** The last committed frame; the first is 1, and 0 stands for none. */
  readonly lastFrame: number
  /** Of the database with those frames. 0 before the first frame: the file's size counts then. */
  readonly pageCount: number
  /** Of the last committed frame. */
  readonly checksum: Checksum
  /** Eight bytes that every frame of the WAL's present generation carries. */
  readonly salts: Buffer
}

/** The running checksum of a WAL. */
export type Checksum = readonly [number, number]

/**
 * Continues a checksum of SQLite's over little-endian words.
 *
 * @param words an even number of them
 */
export function continueChecksum([first, second]: Checksum, words: Int32Array): Checksum {
  let [a, b] = [first | 0, second | 0]
  for (let at = 0; at < words.length; at += 2) {
    a = (a + (words[at] as number) + b) | 0
    b = (b + (words[at + 1] as number) + a) | 0
  }
  return [a >>> 0, b >>> 0]
}

/** Whether two checksums are the same. */
export function isSameChecksum(a: Checksum, b: Checksum): boolean {
  return a[0] === b[0] && a[1] === b[1]
}

/**
 * Reads the header through a descriptor of the `-shm` that SQLite has open.
 *
 * @returns undefined while a writer is in the middle of it, and for an index that isn't in use or counts in big-endian words
 */
export function readWalIndex(fd: number): WalIndex | undefined {
  const [first, second] = [Buffer.alloc(HEADER_BYTES), Buffer.alloc(HEADER_BYTES)]
  // Writers change the second copy first, so that two equal ones, read in this order, are whole.
  readSync(fd, first, 0, HEADER_BYTES, 0)
  readSync(fd, second, 0, HEADER_BYTES, HEADER_BYTES)
  const [isInitialized, isBigEndian] = [first[12] !== 0, first[13] !== 0]
  if (!first.equals(second) || !isInitialized || isBigEndian || first.readUInt32LE(0) !== VERSION) return undefined
  const words = new Int32Array(first.buffer, first.byteOffset, CHECKED_BYTES / 4)
  const checksum: Checksum = [first.readUInt32LE(40), first.readUInt32LE(44)]
  if (!isSameChecksum(continueChecksum([0, 0], words), checksum)) return undefined
  const pageSize = first.readUInt16LE(14)
  return {
    header: first,
    pageSize: pageSize === 1 ? 65_536 : pageSize,
    lastFrame: first.readUInt32LE(16),
    pageCount: first.readUInt32LE(20),
    checksum: [first.readUInt32LE(24), first.readUInt32LE(28)],
    salts: first.subarray(32, 40),
  }
}

/** How many frames of the WAL are in the database file, read like {@link readWalIndex}. */
export function readBackfilled(fd: number): number {
  const word = Buffer.alloc(4)
  readSync(fd, word, 0, 4, BACKFILL_AT)
  return word.readUInt32LE(0)
}

/** Whether nothing was committed between two readings of the header, nor the WAL begun anew. */
export function isSameState(a: WalIndex | undefined, b: WalIndex | undefined): boolean {
  return a !== undefined && b !== undefined && a.header.equals(b.header)
}

/** How often the WAL was begun anew between two of its generations. */
export function restartsBetween(older: WalIndex, newer: WalIndex): number {
  return (newer.salts.readUInt32BE(0) - older.salts.readUInt32BE(0)) >>> 0
}
