// A session in a store
export { openSessionDurability, type CommitOptions, type SessionDurability } from './session-durability.ts'
export type { AttachedSession, FinishOptions } from './session-durability.ts'
export type { SessionDurabilityOptions } from './run-context.ts'
export { chooseLayout, type LayoutName, type LayoutQuestion } from './layout-in-store.ts'
export type { DurabilityStatus } from './durability-status.ts'
export type { DurabilityEvents, DurabilityEventType, Tell } from './events/table.ts'

// What a commit holds
export type { SnapshotResult } from './commit/snapshot.ts'
export type { SnapshotTrigger } from './layout/layout.ts'
export type { Manifest, ManifestEntry } from './mirror/manifest/manifest.ts'
export { readCommittedManifest } from './mirror/manifest/read.ts'

// What this machine remembers
export {
  holdsUnstoredTurns,
  isOurCommit,
  machineRecordPath,
  readMachineRecord,
  removeMachineRecord,
} from './boot/machine-record.ts'
export { removeSetAside, setAsideTrees } from './boot/set-aside.ts'
export { readLocalJournal } from './boot/local-journal.ts'
export { namesIn, removeStagingDir, sweepStaging } from './tree/staging.ts'
export { sweepTemps } from './tree/temp-files.ts'

// Evaluation runs
export { publishFiles, type PublishedEvalRun, type PublishEvalRunOptions } from './eval-run.ts'

export { FAILPOINTS } from './failpoints.ts'
