import { existsSync, statSync, truncateSync } from 'node:fs'
import type { SyncFailpoint } from '@nexus/host'
import Database from 'better-sqlite3'
import type { Connection } from '../open/connection.ts'
import { fileSizeBytes } from '../open/file-size.ts'
import { openAt } from '../open/place.ts'
import { noteExhaustion, sqliteCode } from '../open/sqlite-error.ts'
import { checkpointConnection, type CheckpointCounts } from './checkpoint.ts'
import { backupInto, isSchemaFailure, vacuumInto } from './copy-database.ts'

/** What every task needs to open its database. */
interface TaskBase {
  readonly livePath: string
  /** From here on, no link on the way to the database is followed. */
  readonly root: string
  readonly busyTimeoutMs: number
}

/** One piece of work on one database, on a connection that lives as long as it. */
export type CopyTask =
  | (TaskBase & { readonly kind: 'checkpoint'; readonly keepWal?: true })
  | (TaskBase & { readonly kind: 'snapshot'; readonly destPath: string })
  /** `alias` leads to a database whose own name can't be handed to SQLite. */
  | (TaskBase & { readonly kind: 'foreign'; readonly destPath: string; readonly alias: string | undefined })

type SnapshotTask = CopyTask & { kind: 'snapshot' }
type ForeignTask = CopyTask & { kind: 'foreign' }

/** What a task reports. */
export interface CopyOutcome {
  /** Of the copy, in bytes; 0 for a checkpoint alone. */
  readonly sizeBytes: number
  readonly checkpoint: CheckpointCounts
}

/** What a task is told from outside. */
export interface TaskHooks {
  readonly failpoint: SyncFailpoint
  /** Throws when the work isn't wanted any more. */
  readonly throwIfAborted: () => void
  readonly onMainThread: boolean
}

// 8 MiB at the usual page size: large enough for full speed, small enough for an abort to be noticed soon.
const WORKER_STEP_PAGES = 2048
// 1 MiB: about 2 ms.
const MAIN_STEP_PAGES = 256
// About 3 ms of VACUUM INTO; starting a worker costs ten times that.
const INLINE_MAX_BYTES = 1024 * 1024

/** Whether a database, with what its WAL holds, is more than a copy on the main thread may be. */
export function isLarge(livePath: string): boolean {
  return fileSizeBytes(`${livePath}-wal`) + fileSizeBytes(livePath) > INLINE_MAX_BYTES
}

const NO_CHECKPOINT: CheckpointCounts = { busy: false, walFrames: 0, checkpointedFrames: 0 }

function connect({ livePath, root, busyTimeoutMs }: CopyTask): Connection {
  return openAt({ root, path: livePath }, `Opening the database at ${livePath} for a copy`, {
    connect: () => new Database(livePath, { fileMustExist: true, timeout: busyTimeoutMs }),
    // A header field: it leaves the schema unparsed.
    prepare: (db) => void db.pragma('schema_version'),
  }).db
}

function withConnection<T>(task: CopyTask, hooks: TaskHooks, run: (db: Connection) => T): T {
  const db = connect(task)
  try {
    const result = run(db)
    hooks.failpoint('storage:before-close')
    return result
  } finally {
    db.close()
  }
}

function checkpoint(db: Connection, busyTimeoutMs: number, hooks: TaskHooks, keepWal?: true): CheckpointCounts {
  hooks.failpoint('storage:before-checkpoint')
  const counts = checkpointConnection(db, busyTimeoutMs, keepWal)
  hooks.failpoint('storage:after-checkpoint')
  return counts
}

function runCheckpoint(task: CopyTask & { kind: 'checkpoint' }, hooks: TaskHooks): CopyOutcome {
  return withConnection(task, hooks, (db) => ({
    sizeBytes: 0,
    checkpoint: checkpoint(db, task.busyTimeoutMs, hooks, task.keepWal),
  }))
}

// After a throw the destination may hold part of a copy.
function runCompactSnapshot(task: SnapshotTask, hooks: TaskHooks): CopyOutcome {
  return withConnection(task, hooks, (db) => {
    const counts = checkpoint(db, task.busyTimeoutMs, hooks)
    hooks.throwIfAborted()
    hooks.failpoint('storage:before-vacuum')
    vacuumInto(db, task.destPath)
    hooks.failpoint('storage:after-vacuum')
    return { sizeBytes: statSync(task.destPath).size, checkpoint: counts }
  })
}

async function runPagedSnapshot(task: SnapshotTask, hooks: TaskHooks): Promise<CopyOutcome> {
  const db = connect(task)
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

// On the main thread no lock may be held across turns of the event loop: a plugin that writes there, to a database without
// WAL, would wait for a lock that only the loop it blocks could give back. A reader of a WAL is in no writer's way.
function paceOf(onMainThread: boolean, isWal: boolean): { pagesPerStep: number; inOneStep: boolean } {
  if (!onMainThread) return { pagesPerStep: WORKER_STEP_PAGES, inOneStep: false }
  return { pagesPerStep: MAIN_STEP_PAGES, inOneStep: !isWal }
}

async function pagedCopy(db: Connection, destPath: string, hooks: TaskHooks): Promise<void> {
  hooks.throwIfAborted()
  hooks.failpoint('storage:before-backup')
  const onStep = (): void => {
    hooks.failpoint('storage:backup-step')
    hooks.throwIfAborted()
  }
  // By the file and not by the pragma, which would parse the schema.
  const isWal = existsSync(`${db.name}-wal`)
  await backupInto(db, destPath, { onStep, ...paceOf(hooks.onMainThread, isWal) })
  hooks.failpoint('storage:after-backup')
  hooks.failpoint('storage:before-close')
}

async function runForeign(task: ForeignTask, hooks: TaskHooks): Promise<CopyOutcome> {
  const db = openForeign(task)
  try {
    await pagedCopy(db, task.destPath, hooks)
  } finally {
    db.close()
  }
  return { sizeBytes: statSync(task.destPath).size, checkpoint: NO_CHECKPOINT }
}

function openReadOnly({ livePath, alias, root, busyTimeoutMs }: ForeignTask, readonly = true): Connection {
  return openAt({ root, path: livePath }, `Opening ${livePath} for a copy`, {
    connect: () => new Database(alias ?? livePath, { readonly, fileMustExist: true, timeout: busyTimeoutMs }),
    prepare: (db) => {
      db.pragma('trusted_schema = OFF')
      db.pragma('schema_version')
    },
  }).db
}

// A read-only connection can't roll a hot journal back, and neither checkpoints nor deletes a WAL when it closes.
function openForeign(task: ForeignTask): Connection {
  try {
    return openReadOnly(task)
  } catch (error) {
    if (sqliteCode(error) !== 'SQLITE_READONLY_ROLLBACK') throw error
  }
  // The writer died in the middle of a transaction. The first reader undoes it, as the owner's next start would.
  openReadOnly(task, false).close()
  return openReadOnly(task)
}

async function runSnapshot(task: SnapshotTask, hooks: TaskHooks): Promise<CopyOutcome> {
  // Compacting can't be interrupted: on the main thread it is for small databases alone.
  if (hooks.onMainThread && isLarge(task.livePath)) return runPagedSnapshot(task, hooks)
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
  try {
    if (task.kind === 'checkpoint') return runCheckpoint(task, hooks)
    return await (task.kind === 'snapshot' ? runSnapshot(task, hooks) : runForeign(task, hooks))
  } catch (error) {
    noteExhaustion(error)
    throw error
  }
}
