import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, it, onTestFinished } from 'vitest'
import { column, fill } from '../../test/sample-database.ts'
import { tempDir } from '../../test/temp-dir.ts'
import { copyInChild } from './copy-child.ts'
import type { CopyTask } from './copy-task.ts'

function task(livePath: string, root: string): CopyTask & { destPath: string } {
  const destPath = join(root, 'copy.db')
  writeFileSync(destPath, '')
  return { kind: 'foreign', livePath, root, destPath, alias: undefined, busyTimeoutMs: 100 }
}

it('a child copies what is committed, and leaves the WAL of a process that lost its locks where it is', async () => {
  const dir = tempDir()
  const path = join(dir, 'live.db')
  const db = new Database(path)
  onTestFinished(() => void db.close())
  db.pragma('journal_mode = WAL')
  fill(db, 20)
  // Whoever closes the last connection that holds locks takes the WAL away.
  readFileSync(path)
  const copy = task(path, dir)
  const { sizeBytes } = await copyInChild(copy, new SharedArrayBuffer(4))
  expect(sizeBytes).toBeGreaterThan(20_000)
  expect(column(copy.destPath, 'SELECT count(*) FROM big')).toEqual([20])
  expect(existsSync(`${path}-wal`)).toBe(true)
  fill(db, 1)
  expect(db.prepare('SELECT count(*) FROM big').pluck().get()).toBe(21)
})

it("SQLite's error comes back from the child with its code", async () => {
  const dir = tempDir()
  const path = join(dir, 'live.db')
  writeFileSync(path, 'no database, but long enough to be taken for one by its size alone'.repeat(20))
  await expect(copyInChild(task(path, dir), new SharedArrayBuffer(4))).rejects.toMatchObject({ code: 'SQLITE_NOTADB' })
})

it('a child is ended when its copy is not wanted any more', async () => {
  const dir = tempDir()
  const path = join(dir, 'live.db')
  const db = new Database(path)
  onTestFinished(() => void db.close())
  fill(db, 1)
  const abort = new SharedArrayBuffer(4)
  Atomics.store(new Int32Array(abort), 0, 1)
  await expect(copyInChild(task(path, dir), abort)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
})
