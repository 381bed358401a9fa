import { type CommitId, isSame } from './commit-facts.ts'
import type { PackName } from './versioned-keys.ts'

/** A pack that was uploaded for a commit that may not have been made yet. */
export interface UploadedPack {
  name: PackName
  sizeBytes: number
  /** What it holds, as whoever uploaded it describes that. */
  contents: unknown
}

/**
 * What a session's tree knows of its commits. It lies inside the tree and is copied, restored and replaced with it: a record
 * beside the tree would call a commit ours that a rolled-back tree doesn't hold.
 *
 * @see docs/formats/object-store.md
 */
export interface SessionRecord {
  /** The boot of the machine in which the tree was placed or last opened. */
  bootId: string
  /** The newest commit that the tree is known to hold. Undefined before the first. */
  base?: CommitId | undefined
  /** Commits that were sent from this tree after its base, oldest first, and may have landed or may yet. */
  attempts: readonly CommitId[]
  /**
   * Uploaded for commits of this tree and named by none yet. Good for as long as the head is a commit of this tree, and
   * worthless after.
   */
  packs: readonly UploadedPack[]
}

/** One line of the record's file. */
export type RecordLine =
  | { boot_id: string; base?: CommitId; attempts?: readonly CommitId[]; packs?: readonly UploadedPack[] }
  | { attempt: CommitId }
  | { committed: CommitId; packs?: readonly UploadedPack[] }
  | { pack: UploadedPack }

/** The record of a tree that holds this commit and nothing else: one restored, or one that is new. */
export function recordOf(bootId: string, base: CommitId | undefined): SessionRecord {
  return { bootId, base, attempts: [], packs: [] }
}

/** The record after one more line. */
export function withLine(record: SessionRecord, line: RecordLine): SessionRecord {
  if ('boot_id' in line) {
    const { boot_id: bootId, base, attempts = [], packs = [] } = line
    return { bootId, base, attempts, packs }
  }
  if ('attempt' in line) return { ...record, attempts: [...record.attempts, line.attempt] }
  if ('pack' in line) return { ...record, packs: [...record.packs, line.pack] }
  const base = line.committed
  // Its number and those below are taken: no attempt at them can land any more.
  const attempts = record.attempts.filter(({ generation }) => generation > base.generation)
  return { ...record, base, attempts, packs: line.packs ?? record.packs }
}

/** Whether the tree holds everything that this commit holds. */
export function holds(record: SessionRecord, commit: CommitId): boolean {
  return isSame(record.base, commit) || record.attempts.some((attempt) => isSame(attempt, commit))
}
