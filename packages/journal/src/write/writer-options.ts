import { NexusError } from '@nexus/errors'
import type { Clock, Logger } from '@nexus/host'
import type { Failpoint } from '../files/failpoints.ts'
import { validateFsyncMode, type FsyncMode } from '../format/header.ts'
import type { JournalFs } from '../files/journal-fs.ts'

/** How to open a journal for writing. */
export interface JournalWriterOptions {
  /** `turn-boundary`: {@link JournalWriter.turnEnded} and barriers sync. `every-event`: {@link JournalWriter.committed} does too. `none`: nothing syncs. */
  fsync: FsyncMode
  /** The active segment is sealed at the end of a turn, or at a snapshot, that finds it at least this large, in bytes. */
  rotateBytes: number
  sessionId: string
  /** The first seq to allot is at least this; above what the journal holds in any case. */
  initialSeq?: number
  /** Highest segment number that a committed manifest names. New segments are numbered above it. */
  committedSegment?: number
  logger?: Logger
  clock?: Clock
  failpoint?: Failpoint
  fs?: JournalFs
  /** Called once when the disk begins to fail, with {@link JournalWriter.behind} set; once more only when it was mended and fails again. */
  onError?: (error: NexusError) => void
}

/** Throws `INVALID_ARGUMENT`, naming the option. */
export function validateOptions(options: JournalWriterOptions): void {
  validateFsyncMode(options.fsync)
  requireInteger('rotateBytes', options.rotateBytes, 1)
  requireInteger('initialSeq', options.initialSeq ?? 1, 1)
  requireInteger('committedSegment', options.committedSegment ?? 0, 0)
}

function requireInteger(key: string, value: number, least: number): void {
  if (Number.isSafeInteger(value) && value >= least) return
  throw new NexusError('INVALID_ARGUMENT', `${key} is ${value}; it must be a whole number of at least ${least}`, {
    op: 'journal.open',
    key,
  })
}
