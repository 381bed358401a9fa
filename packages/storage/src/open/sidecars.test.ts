import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { column } from '../../test/sample-database.ts'
import { tempDir } from '../../test/temp-dir.ts'
import { placeDatabase, removeSidecars } from './sidecars.ts'

function makeDatabase(path: string, value: string): void {
  new Database(path).exec(`CREATE TABLE t (a); INSERT INTO t VALUES ('${value}')`).close()
}

/** Leaves a database with a WAL that holds its last transaction, as a killed process does. */
function makeKilled(dir: string, path: string): void {
  const other = join(dir, 'other.db')
  const db = new Database(other)
  db.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES ('old')")
  for (const suffix of ['-wal', '-shm', '']) renameSync(other + suffix, path + suffix)
  db.close()
}

describe('a database that is put in place', () => {
  it('never meets the sidecars of an earlier one', async () => {
    const dir = tempDir()
    const [from, to] = [join(dir, 'new.db'), join(dir, 'store.db')]
    makeDatabase(from, 'new')
    makeKilled(dir, to)
    writeFileSync(`${to}-wal`, 'stale')
    writeFileSync(`${to}-journal`, Buffer.from([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]))
    await placeDatabase(from, to)
    expect(['', '-wal', '-shm', '-journal'].map((suffix) => existsSync(to + suffix))).toEqual([
      true,
      false,
      false,
      false,
    ])
    expect(column(to, 'SELECT a FROM t')).toEqual(['new'])
    expect(existsSync(from)).toBe(false)
  })

  it('replaces nothing when it is not there itself', async () => {
    const dir = tempDir()
    const to = join(dir, 'store.db')
    makeDatabase(to, 'kept')
    writeFileSync(`${to}-wal`, '')
    await expect(placeDatabase(join(dir, 'none'), to)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(existsSync(`${to}-wal`)).toBe(true)
    expect(column(to, 'SELECT a FROM t')).toEqual(['kept'])
  })
})

it('sidecars are removed by name, and only they', () => {
  const dir = tempDir()
  const path = join(dir, 'store.db')
  for (const name of ['', '-wal', '-shm', '-journal', '-notes']) writeFileSync(path + name, 'x')
  removeSidecars(path)
  removeSidecars(path)
  expect(['', '-wal', '-shm', '-journal', '-notes'].map((name) => existsSync(path + name))).toEqual([
    true,
    false,
    false,
    false,
    true,
  ])
  rmSync(path)
})
