// The databases of a session's plugins
export { openStorageManager, type StorageManager, type StorageManagerOptions } from './storage-manager.ts'
export type { Storage } from './handle/storage.ts'
export type { StorageReader } from './handle/reader-pool.ts'
export type { StorageScope } from './open/scope.ts'

// Copies of them, and of other SQLite files
export type { CheckpointResult, DatabaseSnapshot } from './snapshot/snapshot-databases.ts'
export type { CheckpointCounts } from './copy/checkpoint.ts'
export type { ForeignSnapshot } from './snapshot/snapshot-foreign.ts'
export { NotADatabaseError } from './snapshot/foreign.ts'

// Databases as of one instant, without copying them
export type { DatabaseInstant, Difference } from './pages/instant.ts'
export type { PageRange } from './pages/pinned/page-ranges.ts'

// Where a database lies, and how one is put there
export { pluginDatabasePath, pluginOfDatabase, validatePluginId } from './open/plugin-id.ts'
export { placeDatabase, removeSidecars } from './open/sidecars.ts'
export { replaceContent } from './open/replace-content.ts'

// For tests that kill at every step
export { FAILPOINTS } from './failpoints.ts'
