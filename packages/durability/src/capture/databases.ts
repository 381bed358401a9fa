import type { StorageManager } from '@nexus/storage'

/** A copy of one database, as it was at one moment. */
export interface DatabaseCopy {
  readonly livePath: string
  readonly snapshotPath: string
  readonly sizeBytes: number
}

/** How databases come into a commit: a strategy, since a copy of the whole is not the only way. */
export interface DatabaseCapture {
  /** Absolute paths of the open databases of the session. */
  paths(): readonly string[]
  /** Copies all of them below `dir`, each as of one moment. One whose file was deleted is left out. */
  copy(dir: string, signal: AbortSignal | undefined): Promise<readonly DatabaseCopy[]>
  /**
   * Copies a SQLite file that isn't the manager's.
   *
   * @throws `UNSUPPORTED`, named `NotADatabaseError`, for a file that is to be stored as it lies there
   */
  copyForeign(livePath: string, destPath: string, signal: AbortSignal | undefined): Promise<{ sizeBytes: number }>
}

/** Whole copies, made by SQLite in the workers of the storage manager. */
export function copiesOf(storage: StorageManager): DatabaseCapture {
  return {
    paths: () => storage.paths('session'),
    copy: (dir, signal) => storage.snapshot('session', dir, { signal }),
    copyForeign: (livePath, destPath, signal) => storage.snapshotForeign(livePath, destPath, { signal }),
  }
}
