import { lstatSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fromSystemError } from '@nexus/errors'
import { engineTempName } from '@nexus/host'
import { type FileStat, sameFileStat } from '../../../tree/tree-stat.ts'
import type { FileRecord } from '../file-record.ts'

/** When content is trusted to be what it was: by its stat, or never. */
export type VerifyContent = 'auto' | 'always'

const MARGIN_NS = 2_000_000_000n

// Local file systems whose times move with every write: ext2 to 4, xfs, btrfs, f2fs, zfs, bcachefs, overlayfs (by what lies
// below it), apfs. Of tmpfs, NFS, FUSE and what we don't know, nothing of the kind is known.
const TRUSTED_KINDS = new Set([0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1, 0xca451a4e, 0x794c7630, 0x1a])

/**
 * When a snapshot began, by the clock of the file system: the time of a file just made in it, which a process's own clock may
 * be ahead of.
 *
 * @param dir a directory in the same file system as the tree
 */
export function snapshotStart(dir: string): bigint {
  const path = join(dir, engineTempName())
  try {
    writeFileSync(path, '')
    return lstatSync(path, { bigint: true }).mtimeNs
  } catch (error) {
    throw fromSystemError(error, 'snapshot.start', path)
  } finally {
    rmSync(path, { force: true })
  }
}

/** Whether stats of a file system say when content changed. */
export function isTrustedFileSystem(dir: string): boolean {
  try {
    return TRUSTED_KINDS.has(statfsSync(dir).type)
  } catch {
    return false
  }
}

/**
 * Times before which a file that looks the same is the same: so much older than the snapshot in which it was read that no
 * write could have hidden behind them.
 *
 * @param lastStartNs when the last committed snapshot began; undefined when there was none in this process
 */
export function trustedBefore(lastStartNs: bigint | undefined): bigint | undefined {
  return lastStartNs === undefined ? undefined : lastStartNs - MARGIN_NS
}

/**
 * Whether a file is certain to hold what the record says, by its stat alone: it looks as it did before it was read.
 *
 * @param beforeNs as {@link trustedBefore} says; undefined: no file is certain
 */
export function isUnchanged(record: FileRecord, stat: FileStat, beforeNs: bigint | undefined): boolean {
  if (beforeNs === undefined || record.stat === undefined) return false
  return sameFileStat(record.stat, stat) && stat.mtimeNs < beforeNs && stat.ctimeNs < beforeNs
}
