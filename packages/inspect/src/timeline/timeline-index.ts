import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import type { JournalEnvelope } from '@nexus/journal'
import Database, { type Database as Connection } from 'better-sqlite3'
import { Scratch } from '../read/scratch.ts'
import { timeline, type TimelineTurn } from './timeline.ts'

/** The tables of a {@link TimelineIndex}. A turn is known by the seq it began with: an id may come twice. */
export const TIMELINE_SCHEMA = `
CREATE TABLE turns (
  first_seq INTEGER PRIMARY KEY, last_seq INTEGER, turn_id TEXT, started_at TEXT, duration_ms INTEGER, error TEXT);
CREATE TABLE calls (
  turn_seq INTEGER REFERENCES turns (first_seq), position INTEGER, name TEXT, duration_ms INTEGER, error TEXT,
  PRIMARY KEY (turn_seq, position)) WITHOUT ROWID;
CREATE TABLE files (
  turn_seq INTEGER REFERENCES turns (first_seq), position INTEGER, path TEXT,
  PRIMARY KEY (turn_seq, position)) WITHOUT ROWID;
CREATE VIEW errors AS
  SELECT first_seq AS turn_seq, turn_id AS of, error FROM turns WHERE error IS NOT NULL
  UNION ALL SELECT turn_seq, name, error FROM calls WHERE error IS NOT NULL;
`

const ROWS_PER_TRANSACTION = 1000

/** A value of SQLite; bytes come as lowercase hex. */
export type SqlValue = string | number | null

/** The turns of a journal as tables, for as long as it is open. Only reads are answered. `using` closes it. */
export class TimelineIndex implements Disposable {
  readonly #db: Connection

  constructor(db: Connection) {
    this.#db = db
  }

  /**
   * Answers one statement that reads, row by row; the names of its columns come first.
   *
   * @throws NexusError `INVALID_ARGUMENT` for a statement that SQLite refuses, that writes, or that gives no rows
   */
  query(sql: string): { columns: string[]; rows: Generator<SqlValue[], undefined> } {
    const statement = answering(() => this.#db.prepare<unknown[], unknown[]>(sql))
    if (!statement.reader || !statement.readonly) {
      throw refused('only a statement that reads, such as SELECT, is answered')
    }
    const columns = answering(() => statement.raw().columns()).map(({ name }) => name)
    return { columns, rows: rowsOf(statement) }
  }

  close(): void {
    this.#db.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

function* rowsOf(statement: Database.Statement<unknown[], unknown[]>): Generator<SqlValue[], undefined> {
  const rows = answering(() => statement.iterate())
  try {
    for (;;) {
      const next = answering(() => rows.next())
      if (next.done === true) return undefined
      yield next.value.map((value) => (Buffer.isBuffer(value) ? value.toString('hex') : (value as SqlValue)))
    }
  } finally {
    rows.return?.()
  }
}

/**
 * Builds the index of a journal anew: the same turns, calls, errors and files as {@link timeline} tells. It lies in a
 * temporary file that has no name any more, never in the session.
 *
 * @throws NexusError `LOCAL_IO` without a place for the file, what the journal rejects with
 */
export async function indexTimeline(
  events: AsyncIterable<JournalEnvelope>,
  { scratchDir, signal }: { scratchDir?: string; signal?: AbortSignal } = {},
): Promise<TimelineIndex> {
  const scratch = new Scratch(scratchDir)
  try {
    const path = join(scratch.dir, 'timeline.db')
    await fill(path, events, signal)
    return new TimelineIndex(new Database(path, { readonly: true, fileMustExist: true }))
  } finally {
    // What is open stays readable, and nothing is left of it when the process is killed.
    await scratch.remove()
  }
}

async function fill(
  path: string,
  events: AsyncIterable<JournalEnvelope>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const db = new Database(path)
  try {
    db.pragma('journal_mode = OFF')
    db.pragma('synchronous = OFF')
    db.exec(TIMELINE_SCHEMA)
    const add = adder(db)
    let pending: TimelineTurn[] = []
    for await (const turn of timeline(events)) {
      signal?.throwIfAborted()
      pending.push(turn)
      if (pending.length < ROWS_PER_TRANSACTION) continue
      add(pending)
      pending = []
    }
    add(pending)
  } finally {
    db.close()
  }
}

function adder(db: Connection): (turns: readonly TimelineTurn[]) => void {
  const addTurn = db.prepare('INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?)')
  const addCall = db.prepare('INSERT INTO calls VALUES (?, ?, ?, ?, ?)')
  const addFile = db.prepare('INSERT INTO files VALUES (?, ?, ?)')
  return db.transaction((turns: readonly TimelineTurn[]) => {
    for (const { firstSeq, lastSeq, turnId, startedAt, durationMs, error, calls, files } of turns) {
      addTurn.run(firstSeq, lastSeq, turnId, startedAt, durationMs ?? null, error ?? null)
      for (const [at, call] of calls.entries()) {
        addCall.run(firstSeq, at, call.name, call.durationMs ?? null, call.error ?? null)
      }
      for (const [at, file] of files.entries()) addFile.run(firstSeq, at, file)
    }
  })
}

function answering<T>(ask: () => T): T {
  try {
    return ask()
  } catch (error) {
    throw refused(error instanceof Error ? error.message : String(error), error)
  }
}

function refused(why: string, cause?: unknown): NexusError {
  const message = `the query can't be answered: ${why}. The tables are turns, calls, files and errors`
  return new NexusError('INVALID_ARGUMENT', message, { op: 'inspect.sql', cause })
}
