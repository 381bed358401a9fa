import type { Connection } from '../open/connection.ts'
import { isBusy } from '../open/sqlite-error.ts'

/** What one checkpoint did. */
export interface CheckpointCounts {
  /** Something, a reader or a writer, kept the WAL from being emptied. Nothing is lost by it: the WAL stays longer. */
  readonly busy: boolean
  /** Frames in the WAL; 0 when the database has none. */
  readonly walFrames: number
  /** Frames of those that are in the database file now. */
  readonly checkpointedFrames: number
}

interface PragmaRow {
  busy: number
  log: number
  checkpointed: number
}

function run(db: Connection, mode: 'PASSIVE' | 'TRUNCATE'): PragmaRow | undefined {
  try {
    return (db.pragma(`main.wal_checkpoint(${mode})`) as PragmaRow[])[0]
  } catch (error) {
    if (isBusy(error)) return undefined
    throw error
  }
}

/**
 * Moves the WAL into the database file and empties it, as far as that goes without waiting for other connections.
 *
 * PASSIVE does the work without the write lock. TRUNCATE then needs that lock, and with a busy timeout it would hold it
 * while it waits for readers, which stops every writer of the database: so it never waits.
 *
 * @param db a connection of the manager's own, in no transaction
 * @param busyTimeoutMs what the connection's busy timeout is set to afterwards
 * @param keepWal leaves the WAL as it is, for the next writer to begin anew
 * @see docs/concepts/durability.md
 */
export function checkpointConnection(db: Connection, busyTimeoutMs: number, keepWal = false): CheckpointCounts {
  db.pragma('busy_timeout = 0')
  try {
    const passive = run(db, 'PASSIVE')
    const truncate = keepWal ? undefined : run(db, 'TRUNCATE')
    const done = truncate !== undefined && truncate.busy === 0
    // A TRUNCATE that succeeded reports the empty WAL; the frames that were moved are in the first answer. Without a WAL
    // both are -1.
    const walFrames = Math.max(0, passive?.log ?? truncate?.log ?? 0)
    const moved = Math.max(0, passive?.checkpointed ?? truncate?.checkpointed ?? 0)
    return { busy: !done, walFrames, checkpointedFrames: done ? walFrames : moved }
  } finally {
    db.pragma(`busy_timeout = ${busyTimeoutMs}`)
  }
}
