// Time and waiting
export { fileTimestamp, systemClock, type Clock, type TimerHandle } from './clock.ts'
export { Deadline, raceSignal, within, type WithinOptions } from './deadline.ts'
export { Slices } from './slices.ts'
export { AsyncLock } from './async-lock.ts'

// Logs and tests
export { silentLogger, type Logger, type LogLine } from './logger.ts'
export { noFailpoint, type Failpoint, type SyncFailpoint } from './failpoint.ts'

// This process among others
export { Fence } from './fence.ts'
export { WorkerStarter, type WorkerStarterOptions } from './worker-starter.ts'
export { isRunning, systemProcesses, type ProcessIdentity, type ProcessTable } from './process-identity.ts'
export { acquireSessionLock, adoptSessionLock, readLockState, writeLockFile } from './lock/session-lock.ts'
export type { SessionLockOptions } from './lock/session-lock.ts'
export type { SessionLock } from './lock/held-lock.ts'
export { LOCK_FILE } from './lock/lock-record.ts'
export { SessionLockedError } from './lock/session-locked-error.ts'

// Files
export { engineTempName, isAbandonedTemp, isEngineTempName, TEMP_GRACE_MS } from './temp-name.ts'
export { syncData, syncDirectory, writeFully } from './sync.ts'
export {
  ATOMIC_WRITE_FAILPOINTS,
  atomicWriteFile,
  type AtomicWriteFs,
  type AtomicWriteOptions,
} from './atomic-write.ts'
export { parseTreePath, treeParent, TreeRoot, type TreeDirectory, type TreeSlot } from './tree-root.ts'
export { descriptorPath } from './descriptor-path.ts'
export { TreeCursor } from './tree-cursor.ts'
export { readPlainFile } from './plain-file.ts'
export { PathEscapeError } from './path-escape-error.ts'
export {
  hashSteps,
  NOT_A_FILE,
  openRegular,
  readSteps,
  runSteps,
  type FileDigest,
  type HashOptions,
} from './file-digest.ts'
export { holdDirectory, type DirectoryWalkFs, type HeldDirectory } from './directory-walk.ts'
