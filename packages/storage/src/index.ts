export type { CheckpointCounts } from './checkpoint.ts'
export { FAILPOINTS, type Failpoint } from './failpoint.ts'
export { NotADatabaseError } from './foreign.ts'
export type { Logger } from './logger.ts'
export { validatePluginId } from './plugin-id.ts'
export type { StorageReader } from './reader-pool.ts'
export type { StorageScope } from './scope.ts'
export {
  openStorageManager,
  type CheckpointResult,
  type DatabaseSnapshot,
  type ForeignSnapshot,
  type StorageManager,
  type StorageManagerOptions,
} from './storage-manager.ts'
export type { Storage } from './storage.ts'
