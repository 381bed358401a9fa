// Time and waiting
export { fileTimestamp, systemClock, type Clock, type TimerHandle } from './time/clock.ts'
export { Deadline, raceSignal, within, type WithinOptions } from './time/deadline.ts'
export { Slices } from './time/slices.ts'
export { forEachSliced, sortSliced } from './time/sliced.ts'
export { AsyncLock } from './time/async-lock.ts'

// Logs and tests
export { silentLogger, type Logger, type LogLine } from './logger.ts'
export { noFailpoint, type Failpoint, type SyncFailpoint } from './failpoint.ts'

// This process among others
export { Fence } from './process/fence.ts'
export { WorkerStarter, type WorkerStarterOptions } from './process/worker-starter.ts'
export {
  isRunning,
  systemProcesses,
  type ProcessIdentity,
  type ProcessTable,
  type ThreadIdentity,
} from './process/process-identity.ts'
export { acquireSessionLock, adoptSessionLock, readLockState, writeLockFile } from './lock/session-lock.ts'
export type { SessionLockOptions } from './lock/session-lock.ts'
export type { SessionLock } from './lock/held-lock.ts'
export { LOCK_FILE } from './lock/lock-record.ts'
export { SessionLockedError } from './lock/session-locked-error.ts'

// Files
export { engineTempName, isAbandonedTemp, isEngineTempName, TEMP_GRACE_MS } from './files/temp-name.ts'
export { syncData, syncDirectory, syncFile, writeFully } from './files/sync.ts'
export {
  ATOMIC_WRITE_FAILPOINTS,
  atomicWriteFile,
  type AtomicWriteFs,
  type AtomicWriteOptions,
} from './files/atomic-write.ts'
export { parseTreePath, treeParent, TreeRoot, type TreeDirectory, type TreeSlot } from './walk/tree-root.ts'
export { descriptorPath } from './walk/descriptor-path.ts'
export { TreeCursor } from './walk/tree-cursor.ts'
export { crc32c, Crc32c } from './files/crc32c.ts'
export { jsonPieces, type JsonPiece } from './files/json-pieces.ts'
export { inspectTextLog, isJsonObject, type TextLogDamage, type TextLogReport } from './files/text-log.ts'
export { fileFault, type FileFault } from './walk/file-fault.ts'
export { readPlainFile } from './files/plain-file.ts'
export { PathEscapeError } from './walk/path-escape-error.ts'
export {
  hashSteps,
  NOT_A_FILE,
  openRegular,
  readSteps,
  runSteps,
  type FileDigest,
  type HashOptions,
} from './files/file-digest.ts'
export { FileDigester, sha256OfFile, sharedDigester } from './files/digester.ts'
export { holdDirectory, type DirectoryWalkFs, type HeldDirectory } from './walk/directory-walk.ts'
