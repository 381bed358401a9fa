// Writing
export { BARRIER_DEADLINE_MS, JournalWriter, type WaitOptions } from './write/writer.ts'
export type { JournalWriterOptions } from './write/writer-options.ts'
export type { JournalSnapshot, SnapshotFile } from './write/snapshot-journal.ts'

// Reading
export { JournalReader, type JournalReaderOptions } from './read/reader.ts'
export { projectFile, type ProjectionHandler } from './read/project-file.ts'
export { verify, type JournalVerification } from './read/verify.ts'

// What is on the disk
export {
  ACTIVE_SEGMENT,
  HEADER_FILE,
  MAX_LINE_BYTES,
  MAX_SEGMENT_BYTES,
  SEALED_SEGMENT_PATTERN,
  segmentName,
} from './format/format.ts'
export { SegmentDamagedError, type DamageKind, type JournalDamage } from './format/damage.ts'
export type { FsyncMode, JournalHeader } from './format/header.ts'
export type { JournalEnvelope, JournalRecord } from './format/record.ts'
export { readSwept, type SweptSegment } from './format/swept.ts'

// Turns and replay
export { readOpenTurn, type OpenTurn } from './replay/read-open-turn.ts'
export {
  Coordinator,
  TURN_TIMEOUT_MS,
  type ReplayOptions,
  type ReplayTarget,
  type ToolCall,
} from './replay/coordinator.ts'
export { ToolCache } from './replay/tool-cache.ts'
export { REFIRED_SOURCE } from './replay/turns.ts'

// Going back, repairing, sweeping
export {
  listArchives,
  restore,
  rewind,
  type JournalArchive,
  type JournalLock,
  type RewindOptions,
  type RewoundJournal,
} from './rewind/rewind.ts'
export { rebuildActiveSegment, type RebuildOptions, type RebuiltSegment } from './segment/rebuild-active-segment.ts'
export { readLastSeqOfSegment } from './segment/segment-seq.ts'
export { sweep, type CommittedSegment, type SweepClaim, type SweepOptions } from './sweep/sweep.ts'

// For tests
export { FAILPOINTS, type Failpoint, type FailpointName } from './files/failpoints.ts'
export type { JournalFs } from './files/journal-fs.ts'
