import { join } from 'node:path'
import { tempDir } from '@nexus/host/testing'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { copyDatabase } from './database-copy.ts'

/** Two tables on pages of their own; every transaction raises one of them, and the second never gets ahead of the first. */
function twoTables(mode: 'WAL' | 'DELETE'): { path: string; db: Database.Database; raise: (table: 'a' | 'b') => void } {
  const path = join(tempDir(), 'live.db')
  const db = new Database(path)
  db.pragma(`journal_mode = ${mode}`)
  db.pragma('wal_autocheckpoint = 0')
  db.exec('CREATE TABLE a (n); CREATE TABLE b (n); INSERT INTO a VALUES (0); INSERT INTO b VALUES (0)')
  return { path, db, raise: (table) => void db.exec(`UPDATE ${table} SET n = n + 1`) }
}

function readPair(path: string): { a: number; b: number } {
  const db = new Database(path)
  const pair = db.prepare('SELECT (SELECT n FROM a) AS a, (SELECT n FROM b) AS b').get() as { a: number; b: number }
  expect(db.pragma('integrity_check', { simple: true })).toBe('ok')
  db.close()
  return pair
}

describe.each(['WAL', 'DELETE'] as const)('a copy of a database in mode %s', (mode) => {
  it.each([true, false])(
    'holds one instant when all of it changes between its files (emptied first: %s)',
    async (emptied) => {
      const { path, db, raise } = twoTables(mode)
      if (emptied) db.pragma('wal_checkpoint(TRUNCATE)')
      let hits = 0
      const copy = await copyDatabase(path, tempDir(), {
        failpoint: () => {
          // A whole cycle: what was committed is in the database alone, and only the rest is in a WAL that began anew.
          if (hits++ > 0) return
          raise('a')
          db.pragma('wal_checkpoint(TRUNCATE)')
          raise('b')
        },
      })
      expect(readPair(copy)).toEqual({ a: 1, b: 1 })
      expect(hits).toBeGreaterThan(1)
      db.close()
    },
  )

  it('holds what was committed before it, and nothing of an open transaction', async () => {
    const { path, db, raise } = twoTables(mode)
    raise('a')
    if (mode === 'WAL') db.exec('BEGIN IMMEDIATE; UPDATE a SET n = 100')
    expect(readPair(await copyDatabase(path, tempDir()))).toEqual({ a: 1, b: 0 })
    db.close()
  })
})

it('takes what a checkpoint moves meanwhile from the WAL', async () => {
  const { path, db, raise } = twoTables('WAL')
  raise('a')
  const copy = await copyDatabase(path, tempDir(), { failpoint: () => void db.pragma('wal_checkpoint(PASSIVE)') })
  expect(readPair(copy)).toEqual({ a: 1, b: 0 })
  db.close()
})
