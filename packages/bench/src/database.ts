import { randomFillSync } from 'node:crypto'
import type { Database } from 'better-sqlite3'

const ROW_BYTES = 1000
/** What SQLite adds to a row of that size, its share of the pages included. */
const OVERHEAD = 1.03
const HUNDRED_ROWS = 100

/** Makes a table `items (id, body)` that lets the database grow to about `sizeBytes`: at least a hundred rows. */
export function fillDatabase(db: Database, sizeBytes: number): void {
  const rows = Math.round(sizeBytes / (ROW_BYTES * OVERHEAD))
  const body = Buffer.alloc(rows <= HUNDRED_ROWS ? 200 : ROW_BYTES)
  db.exec('CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, body BLOB)')
  const insert = db.prepare('INSERT INTO items (body) VALUES (?)')
  db.transaction(() => {
    for (let row = 0; row < Math.max(rows, HUNDRED_ROWS); row++) insert.run(randomFillSync(body))
  })()
}
