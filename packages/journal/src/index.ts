export type { Clock, TimerHandle } from './clock.ts'
export {
  Coordinator,
  TURN_TIMEOUT_MS,
  type ReplayOptions,
  type ReplayTarget,
  type ToolCall,
} from './replay/coordinator.ts'
export { MAX_DAMAGE_ENTRIES, SegmentDamagedError, type DamageKind, type JournalDamage } from './format/damage.ts'
export { FAILPOINTS, type Failpoint, type FailpointName } from './files/failpoints.ts'
export {
  ACTIVE_SEGMENT,
  HEADER_FILE,
  MAX_LINE_BYTES,
  MAX_SEGMENT_BYTES,
  SCHEMA_VERSION,
  SEALED_SEGMENT_PATTERN,
  segmentName,
} from './format/format.ts'
export type { FsyncMode, JournalHeader } from './format/header.ts'
export type { JournalFs } from './files/journal-fs.ts'
export type { Logger, LogLine } from './logger.ts'
export { projectFile } from './read/project-file.ts'
export type { ProjectionHandler } from './write/projections.ts'
export { readOpenTurn, type OpenTurn } from './replay/read-open-turn.ts'
export { JournalReader, type JournalReaderOptions } from './read/reader.ts'
export { rebuildActiveSegment, type RebuildOptions, type RebuiltSegment } from './segment/rebuild-active-segment.ts'
export type { JournalEnvelope, JournalRecord } from './format/record.ts'
export {
  listArchives,
  restore,
  rewind,
  type JournalArchive,
  type RewindOptions,
  type RewoundJournal,
} from './rewind/rewind.ts'
export { readLastSeqOfSegment } from './segment/segment-seq.ts'
export type { JournalSnapshot, SnapshotFile } from './write/snapshot-journal.ts'
export { sweep, type SweepOptions } from './sweep/sweep.ts'
export { ToolCache } from './replay/tool-cache.ts'
export { verify, type JournalVerification } from './read/verify.ts'
export { BARRIER_DEADLINE_MS, JournalWriter, type WaitOptions } from './write/writer.ts'
export type { JournalWriterOptions } from './write/writer-options.ts'
