import { statSync, truncateSync } from 'node:fs'
import Database from 'better-sqlite3'
import { checkpointConnection, type CheckpointCounts } from './checkpoint.ts'
import { backupInto, isSchemaFailure, vacuumInto } from './copy-database.ts'
import type { Connection } from './connection.ts'
import type { Failpoint } from './failpoint.ts'

/** One piece of work on one database, on a connection that lives as long as it. */
export type CopyTask =
  | { readonly kind: 'checkpoint'; readonly livePath: string; readonly busyTimeoutMs: number }
  | { readonly kind: 'snapshot'; readonly livePath: string; readonly destPath: string; readonly busyTimeoutMs: number }
  | { readonly kind: 'foreign'; readonly livePath: string; readonly destPath: string; readonly busyTimeoutMs: number }

/** What a task reports. */
export interface CopyOutcome {
  /** Of the copy, in bytes; 0 for a checkpoint alone. */
  readonly sizeBytes: number
  readonly checkpoint: CheckpointCounts
}

/** What a task is told from outside. */
export interface TaskHooks {
  readonly failpoint: Failpoint
  /** Throws when the work isn't wanted any more. */
  readonly throwIfAborted: () => void
  /** On the main thread, where no lock may be held across turns of the event loop. */
  readonly onMainThread: boolean
}

const NO_CHECKPOINT: CheckpointCounts = { busy: false, walFrames: 0, checkpointedFrames: 0 }

function withConnection<T>(livePath: string, busyTimeoutMs: number, hooks: TaskHooks, run: (db: Connection) => T): T {
  const db = new Database(livePath, { fileMustExist: true, timeout: busyTimeoutMs })
  try {
    const result = run(db)
    hooks.failpoint('storage:before-close')
    return result
  } finally {
    db.close()
  }
}

function checkpoint(db: Connection, busyTimeoutMs: number, hooks: TaskHooks): CheckpointCounts {
  hooks.failpoint('storage:before-checkpoint')
  const counts = checkpointConnection(db, busyTimeoutMs)
  hooks.failpoint('storage:after-checkpoint')
  return counts
}

function runCheckpoint(task: CopyTask & { kind: 'checkpoint' }, hooks: TaskHooks): CopyOutcome {
  return withConnection(task.livePath, task.busyTimeoutMs, hooks, (db) => ({
    sizeBytes: 0,
    checkpoint: checkpoint(db, task.busyTimeoutMs, hooks),
  }))
}

// After a throw the destination may hold part of a copy.
function runCompactSnapshot(task: CopyTask & { kind: 'snapshot' }, hooks: TaskHooks): CopyOutcome {
  return withConnection(task.livePath, task.busyTimeoutMs, hooks, (db) => {
    const counts = checkpoint(db, task.busyTimeoutMs, hooks)
    hooks.throwIfAborted()
    hooks.failpoint('storage:before-vacuum')
    vacuumInto(db, task.destPath)
    hooks.failpoint('storage:after-vacuum')
    return { sizeBytes: statSync(task.destPath).size, checkpoint: counts }
  })
}

async function runPagedSnapshot(task: CopyTask & { kind: 'snapshot' }, hooks: TaskHooks): Promise<CopyOutcome> {
  const db = new Database(task.livePath, { fileMustExist: true, timeout: task.busyTimeoutMs })
  let counts: CheckpointCounts
  try {
    counts = checkpoint(db, task.busyTimeoutMs, hooks)
    await pagedCopy(db, task.destPath, hooks)
  } finally {
    db.close()
  }
  const copy = new Database(task.destPath, { fileMustExist: true, timeout: 0 })
  try {
    copy.pragma('synchronous = OFF')
    copy.pragma('journal_mode = DELETE')
  } finally {
    copy.close()
  }
  return { sizeBytes: statSync(task.destPath).size, checkpoint: counts }
}

async function pagedCopy(db: Connection, destPath: string, hooks: TaskHooks): Promise<void> {
  hooks.throwIfAborted()
  hooks.failpoint('storage:before-backup')
  const onStep = (): void => {
    hooks.failpoint('storage:backup-step')
    hooks.throwIfAborted()
  }
  await backupInto(db, destPath, { onStep, inOneStep: hooks.onMainThread })
  hooks.failpoint('storage:after-backup')
  hooks.failpoint('storage:before-close')
}

async function runForeign(task: CopyTask & { kind: 'foreign' }, hooks: TaskHooks): Promise<CopyOutcome> {
  const db = openForeign(task.livePath, task.busyTimeoutMs)
  try {
    await pagedCopy(db, task.destPath, hooks)
  } finally {
    db.close()
  }
  return { sizeBytes: statSync(task.destPath).size, checkpoint: NO_CHECKPOINT }
}

function openReadOnly(livePath: string, busyTimeoutMs: number): Connection {
  const db = new Database(livePath, { readonly: true, fileMustExist: true, timeout: busyTimeoutMs })
  try {
    db.pragma('trusted_schema = OFF')
    db.pragma('schema_version')
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

// A read-only connection can't roll a hot journal back, and neither checkpoints nor deletes a WAL when it closes.
function openForeign(livePath: string, busyTimeoutMs: number): Connection {
  try {
    return openReadOnly(livePath, busyTimeoutMs)
  } catch (error) {
    if (!(error instanceof Database.SqliteError) || error.code !== 'SQLITE_READONLY_ROLLBACK') throw error
  }
  // The writer died in the middle of a transaction. The first reader undoes it, as the owner's next start would.
  const repair = new Database(livePath, { fileMustExist: true, timeout: busyTimeoutMs })
  try {
    repair.pragma('trusted_schema = OFF')
    repair.pragma('schema_version')
  } finally {
    repair.close()
  }
  return openReadOnly(livePath, busyTimeoutMs)
}

async function runSnapshot(task: CopyTask & { kind: 'snapshot' }, hooks: TaskHooks): Promise<CopyOutcome> {
  try {
    return runCompactSnapshot(task, hooks)
  } catch (error) {
    if (!isSchemaFailure(error)) throw error
  }
  truncateSync(task.destPath)
  return runPagedSnapshot(task, hooks)
}

/** Runs any task; throws SQLite's error as it is. The destination, if any, is an empty file that the caller made. */
export async function runTask(task: CopyTask, hooks: TaskHooks): Promise<CopyOutcome> {
  hooks.throwIfAborted()
  if (task.kind === 'checkpoint') return runCheckpoint(task, hooks)
  return task.kind === 'snapshot' ? runSnapshot(task, hooks) : runForeign(task, hooks)
}
