import { lstatSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { fromSystemError, NexusError } from '@nexus/errors'
import { openPluginConnection } from './connection.ts'
import type { Failpoint } from './failpoint.ts'
import type { Logger } from './logger.ts'
import { checkPathLength } from './path-length.ts'
import type { ReaderPoolSettings } from './reader-pool.ts'
import type { StorageScope } from './scope.ts'
import { fromSqliteError } from './sqlite-error.ts'
import { Storage, type StorageIdentity } from './storage.ts'

/** What a handle is opened with. */
export interface OpenStorageOptions {
  readonly settings: ReaderPoolSettings
  readonly logger: Logger
  readonly failpoint: Failpoint
}

/** Opens a plugin's database, making its directory and file when they are missing. Throws as `StorageManager.open` says. */
export function openStorage(identity: StorageIdentity, { settings, logger, failpoint }: OpenStorageOptions): Storage {
  const { pluginId, path, scope } = identity
  const what = `Opening the database of plugin ${pluginId} at ${path}`
  checkPathLength(path, 'storage.open')
  prepareDirectory(path, what, scope)
  try {
    const { db, journalMode } = openPluginConnection(path, settings, () => failpoint('storage:open-before-wal'))
    if (journalMode !== 'wal') {
      logger.warn(
        { pluginId, path, journalMode },
        'this file system has no shared memory: the database runs without WAL',
      )
    }
    return new Storage(identity, db, settings)
  } catch (error) {
    throw fromSqliteError(error, 'storage.open', what, path)
  }
}

function prepareDirectory(path: string, what: string, scope: StorageScope): void {
  let existing
  let isDirectory: boolean
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    // stat and its kind don't open the file, which would drop the locks of a connection elsewhere in this process.
    existing = lstatSync(path, { throwIfNoEntry: false })
    // Whoever works in a session may have put a link there; elsewhere a link is its owner's.
    isDirectory = scope !== 'session' || lstatSync(dirname(path)).isDirectory()
  } catch (error) {
    throw fromSystemError(error, 'storage.open', path)
  }
  // A symbolic link would be stored as a link, and its database nowhere; below one it would lie outside of the session.
  if (isDirectory && existing?.isFile() !== false) return
  const culprit = isDirectory ? 'it is not a regular file' : 'what it is in is not a real directory'
  throw new NexusError('PRECONDITION', `${what} failed: ${culprit}. Move it away`, { op: 'storage.open', key: path })
}
