// Versioned sessions in a bucket: looked into, gone back in, forked, cleaned up. Nothing here runs a session.

// Reading
export { sessionHistory, type HistoryEntry } from '../history/session-history.ts'
export { restoreSession, type RestoredSession, type RestoreSessionOptions } from '../history/restore-session.ts'
export { diffSessions, type DiffSide, type SessionDiff } from '../history/diff-sessions.ts'
export { verifyGeneration, type VerifiedGeneration } from '../history/verify-generation.ts'
export type { HistoryOptions } from '../history/history-source.ts'
export type { LostPart } from '../history/salvage.ts'
export { DEFAULT_KEEP, type KeepOptions } from '../keep.ts'

// Making another
export { forkSession, type ForkedSession, type ForkOptions } from './fork-session.ts'

// Changing one
export { purgeHistory, type PurgedHistory } from './purge-history.ts'
export { removeSession, type RemovedSession } from './remove-session.ts'
export { repairSession, type RepairedSession } from './repair-session.ts'
export type { ChangeOptions } from './chain-author.ts'

export { migrateSession, type MigratedSession, type MigrateOptions } from './migrate-session.ts'

// All of them
export { collectGarbage, type CollectedSession, type GarbageOptions } from './collect-garbage.ts'
export { HISTORY_FAILPOINTS } from './failpoints.ts'
