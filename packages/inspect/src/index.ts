// Finding and opening sessions
export {
  listSessions,
  storedSessionIds,
  type ListedSession,
  type LocalSession,
  type StoredSession,
} from './read/list-sessions.ts'
export { inspectSession, type InspectOptions, type InspectPlaces } from './read/inspect-session.ts'
export type { LockLook } from './read/lock-look.ts'

// What is in one
export type { BlobEntry, InspectedSession } from './read/inspected-session.ts'
export type { SessionMetadata } from './read/session-metadata.ts'
export type { TreeEntry } from './read/tree-entry.ts'
export { timeline, type TimelineCall, type TimelineTurn } from './timeline/timeline.ts'
export { indexTimeline, TIMELINE_SCHEMA, type SqlValue, type TimelineIndex } from './timeline/timeline-index.ts'

// Moving one
export { exportSession, EXPORT_FAILPOINTS } from './archive/export-session.ts'
export type { CopyProgress, ExportedSession, ExportOptions } from './archive/export-session.ts'
export { importSession, IMPORT_FAILPOINTS, type ImportedSession, type ImportOptions } from './archive/import-session.ts'

// Finding damage
export { verifySession, type SessionProblem, type SessionVerification } from './check/verify-session.ts'
export { examineMachine, type Finding } from './check/examine-machine.ts'
export { surveyStore, type OrphanObject, type StoreSurvey, type SurveyedSession } from './store/survey-store.ts'

// Removing
export { removeLocalSession, REMOVE_FAILPOINTS } from './remove/remove-local.ts'
export { removeStoredSession, REMOVE_STORED_FAILPOINTS, storedObjects } from './store/remove-stored.ts'
export { collectOrphans, type Collection } from './store/collect-orphans.ts'
export { readStoredOwner, type StoredOwner } from './store/stored-owner.ts'
