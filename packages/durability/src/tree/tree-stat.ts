import type { BigIntStats } from 'node:fs'

/** What tells one state of a file from another. */
export interface FileStat {
  /** Bytes. */
  size: number
  /** Permission bits, 0 to 0o7777. */
  mode: number
  mtimeNs: bigint
  ctimeNs: bigint
  ino: bigint
  dev: bigint
}

// A file system's clock ticks every 1 to 10 ms; Linux 6.13 and later tick as often as somebody looks.
const RACY_NS = 50_000_000n

/** The fields of a stat that matter here. */
export function toFileStat(stats: BigIntStats): FileStat {
  return {
    size: Number(stats.size),
    mode: Number(stats.mode & 0o7777n),
    mtimeNs: stats.mtimeNs,
    ctimeNs: stats.ctimeNs,
    ino: stats.ino,
    dev: stats.dev,
  }
}

/** Whether a file is untouched between two stats, as far as a file system tells. */
export function sameFileStat(a: FileStat, b: FileStat): boolean {
  return a.size === b.size && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs && sameInode(a, b)
}

/** {@link sameFileStat} for a directory, whose size says nothing. */
export function sameDirectory(a: FileStat, b: FileStat): boolean {
  return a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs && sameInode(a, b)
}

/** Whether two stats are of the same file or directory, whatever happened to it. */
export function sameInode(a: FileStat, b: FileStat): boolean {
  return a.ino === b.ino && a.dev === b.dev
}

/**
 * Whether a stat was taken so soon after the last change that another one could carry the same time stamp: the clock of a
 * file system ticks every few milliseconds only, and a network file system's is another machine's, hence the margin.
 *
 * @param takenNs when the stat was taken, or before that
 */
export function isRacy({ ctimeNs }: FileStat, takenNs: bigint = nowNs()): boolean {
  return takenNs - ctimeNs < RACY_NS
}

/** The clock of the machine, in nanoseconds since the epoch. */
export function nowNs(): bigint {
  return BigInt(Date.now()) * 1_000_000n
}
