import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from '@nexus/host/testing'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { replaceContent } from './replace-content.ts'

function make(path: string, value: string, mode: 'wal' | 'delete'): Database.Database {
  const db = new Database(path)
  db.pragma(`journal_mode = ${mode}`)
  db.exec('CREATE TABLE t (value TEXT)')
  db.prepare('INSERT INTO t VALUES (?)').run(value)
  return db
}

const valueIn = (db: Database.Database): unknown => db.prepare('SELECT value FROM t').pluck().get()

describe('replacing the content of a database', () => {
  it('is a transaction for a connection that is open: it sees the new content, and stays in WAL mode', async () => {
    const dir = tempDir()
    const [from, to] = [join(dir, 'from.db'), join(dir, 'to.db')]
    make(from, 'new', 'delete').close()
    const open = make(to, 'old', 'wal')
    await replaceContent(from, to)
    expect(valueIn(open)).toBe('new')
    expect(open.pragma('journal_mode', { simple: true })).toBe('wal')
    expect(open.pragma('integrity_check', { simple: true })).toBe('ok')
    open.close()
    const again = new Database(to)
    expect(valueIn(again)).toBe('new')
    again.close()
    expect(existsSync(`${to}-wal`)).toBe(false)
  })

  it('is refused while another connection writes, and changes nothing', async () => {
    const dir = tempDir()
    const [from, to] = [join(dir, 'from.db'), join(dir, 'to.db')]
    make(from, 'new', 'delete').close()
    const writing = make(to, 'old', 'wal')
    writing.exec("BEGIN IMMEDIATE; UPDATE t SET value = 'mine'")
    await expect(replaceContent(from, to)).rejects.toMatchObject({ code: 'LOCKED', retryable: true })
    writing.exec('COMMIT')
    expect(valueIn(writing)).toBe('mine')
    writing.close()
  })

  it('names what is damaged', async () => {
    const dir = tempDir()
    const to = join(dir, 'to.db')
    make(to, 'old', 'wal').close()
    await expect(replaceContent(join(dir, 'missing.db'), to)).rejects.toMatchObject({ key: to })
  })
})
