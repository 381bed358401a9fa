import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { column, fill, integrityOf } from '../../test/sample-database.ts'
import { tempManager } from '../../test/temp-dir.ts'
import { vacuumInto } from './copy-database.ts'
import type { Connection } from '../open/connection.ts'
import type { Storage } from '../handle/storage.ts'

const WRITES = 40

/** A database of several steps, to which every step of its copy finds a row more. */
function writtenAtEachStep(): {
  storage: Storage
  dir: string
  copy: () => Promise<string>
  foreign: () => Promise<string>
} {
  let writes = 0
  const { manager, dir } = tempManager({
    failpoint: (name) => {
      if (name !== 'storage:backup-step' || writes === WRITES) return
      writes++
      storage.db.exec('UPDATE counter SET n = n + 1; INSERT INTO big (value) VALUES (zeroblob(100000))')
    },
  })
  const storage = manager.open('session', 'p')
  fill(storage.db, 20_000)
  storage.db.function('own', { deterministic: true }, (a) => a)
  storage.db.exec(
    'CREATE TABLE counter (n INTEGER); INSERT INTO counter VALUES (0); CREATE INDEX i ON counter (own(n))',
  )
  return {
    storage,
    dir,
    copy: async () => (await manager.snapshot('session', join(dir, 'copy')))[0]?.snapshotPath as string,
    foreign: async () => {
      await manager.snapshotForeign(storage.path, join(dir, 'foreign.db'))
      return join(dir, 'foreign.db')
    },
  }
}

it('syncs again after a compact copy: closing may have to checkpoint', () => {
  const { manager, dir } = tempManager()
  const { db, path } = manager.open('session', 'p')
  fill(db, 10)
  const own = new Database(path)
  onTestFinished(() => void own.close())
  vacuumInto(own, join(dir, 'copy.db'))
  expect(own.pragma('synchronous', { simple: true })).toBe(2)
  expect(() => vacuumInto(own, join(dir, 'copy.db'))).toThrow(/already exists/)
  expect(own.pragma('synchronous', { simple: true })).toBe(2)
})

describe('a copy page by page', () => {
  it.each(['copy', 'foreign'] as const)(
    '(%s) is the state it began with, whatever is written between its steps',
    async (kind) => {
      const made = writtenAtEachStep()
      const path = await made[kind]()
      expect(column(path, 'SELECT count(*) FROM big')).toEqual([20_000])
      expect(column(path, 'SELECT n + 0 FROM counter NOT INDEXED')).toEqual([0])
      // Without one held transaction the copy would have begun anew after each write.
      const writes = column(made.storage.path, 'SELECT n + 0 FROM counter NOT INDEXED')[0] as number
      expect(writes).toBeGreaterThanOrEqual(2)
      expect(writes).toBeLessThan(10)
      made.storage.db.exec('DROP INDEX i')
      expect(integrityOf(made.storage.path)).toBe('ok')
    },
  )

  it('that meets a lock on the main thread goes to the worker, and ends when the lock never does', async () => {
    let held: Connection | undefined
    const { manager, dir } = tempManager({
      busyTimeoutMs: 1,
      failpoint: (name) => {
        if (name === 'storage:backup-step') held?.exec('BEGIN EXCLUSIVE')
      },
    })
    held = new Database(join(dir, 'foreign.db'))
    fill(held, 1)
    writeFileSync(`${held.name}-journal`, '')
    const pending = manager.snapshotForeign(held.name, join(dir, 'copy.db'))
    await expect(pending).rejects.toMatchObject({ code: 'LOCKED', key: held.name })
    held.close()
  })
})
