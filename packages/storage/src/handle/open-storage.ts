import type { SyncFailpoint, Logger } from '@nexus/host'
import type { ReaderPoolSettings } from './reader-pool.ts'
import { Storage, type StorageIdentity } from './storage.ts'
import { openPluginConnection } from '../open/connection.ts'
import { checkPathLength } from '../open/path-length.ts'
import type { Opened } from '../open/place.ts'
import { fromSqliteError } from '../open/sqlite-error.ts'

/** What a handle is opened with. */
export interface OpenStorageOptions {
  readonly settings: ReaderPoolSettings
  readonly logger: Logger
  readonly failpoint: SyncFailpoint
}

/** A handle, and the file that its connection is to. */
export interface OpenedStorage {
  readonly storage: Storage
  readonly file: Opened['file']
}

/** Opens a plugin's database, making its directory and file when they are missing. Throws as `StorageManager.open` says. */
export function openStorage(
  identity: StorageIdentity,
  { settings, logger, failpoint }: OpenStorageOptions,
): OpenedStorage {
  const { pluginId, place } = identity
  const what = `Opening the database of plugin ${pluginId} at ${place.path}`
  checkPathLength(place.path, 'storage.open')
  try {
    const { db, file, journalMode } = openPluginConnection(place, what, settings, () =>
      failpoint('storage:open-before-wal'),
    )
    if (journalMode !== 'wal') {
      logger.warn(
        { pluginId, path: place.path, journalMode },
        'this file system has no shared memory: the database runs without WAL',
      )
    }
    return { storage: new Storage(identity, db, settings), file }
  } catch (error) {
    throw fromSqliteError(error, 'storage.open', what, place.path)
  }
}
