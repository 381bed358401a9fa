import Database from 'better-sqlite3'
import type { Connection } from '../src/open/connection.ts'

/** Fills table `big` with rows of 1 KiB. */
export function fill(db: Connection, sizeKb: number): void {
  db.exec('CREATE TABLE IF NOT EXISTS big (id INTEGER PRIMARY KEY, value BLOB NOT NULL)')
  const insert = db.prepare('INSERT INTO big (value) VALUES (?)')
  const value = Buffer.alloc(1000, 7)
  db.transaction(() => {
    for (let row = 0; row < sizeKb; row++) insert.run(value)
  })()
}

/** Opens a file as any reader would, runs one thing, and closes it. */
export function inspect<T>(path: string, run: (db: Connection) => T): T {
  const db = new Database(path, { fileMustExist: true })
  try {
    return run(db)
  } finally {
    db.close()
  }
}

/** What `PRAGMA integrity_check` says of a file: `ok`, or the first fault. */
export function integrityOf(path: string): unknown {
  return inspect(path, (db) => db.pragma('integrity_check', { simple: true }))
}

/** The rows of one column. */
export function column(path: string, sql: string): unknown[] {
  return inspect(path, (db) => db.prepare(sql).pluck().all())
}
