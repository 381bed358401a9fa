export type { Clock, TimerHandle } from './clock.ts'
export { Coordinator, TURN_TIMEOUT_MS, type ReplayOptions, type ReplayTarget, type ToolCall } from './coordinator.ts'
export { MAX_DAMAGE_ENTRIES, SegmentDamagedError, type DamageKind, type JournalDamage } from './damage.ts'
export { FAILPOINTS, type Failpoint, type FailpointName } from './failpoints.ts'
export {
  ACTIVE_SEGMENT,
  HEADER_FILE,
  MAX_LINE_BYTES,
  MAX_SEGMENT_BYTES,
  SCHEMA_VERSION,
  SEALED_SEGMENT_PATTERN,
  segmentName,
} from './format.ts'
export type { FsyncMode, JournalHeader } from './header.ts'
export type { JournalFs } from './journal-fs.ts'
export type { Logger, LogLine } from './logger.ts'
export { projectFile } from './project-file.ts'
export type { ProjectionHandler } from './projections.ts'
export { readOpenTurn, type OpenTurn } from './read-open-turn.ts'
export { JournalReader, type JournalReaderOptions } from './reader.ts'
export { rebuildActiveSegment, type RebuildOptions, type RebuiltSegment } from './rebuild-active-segment.ts'
export type { JournalEnvelope, JournalRecord } from './record.ts'
export {
  listArchives,
  restore,
  rewind,
  type JournalArchive,
  type RewindOptions,
  type RewoundJournal,
} from './rewind.ts'
export { readLastSeqOfSegment } from './segment-seq.ts'
export type { JournalSnapshot, SnapshotFile } from './snapshot-journal.ts'
export { sweep, type SweepOptions } from './sweep.ts'
export { ToolCache } from './tool-cache.ts'
export { verify, type JournalVerification } from './verify.ts'
export { BARRIER_DEADLINE_MS, JournalWriter, type WaitOptions } from './writer.ts'
export type { JournalWriterOptions } from './writer-options.ts'
