import { lstatSync } from 'node:fs'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { fill } from '../../test/sample-database.ts'
import { tempManager } from '../../test/temp-dir.ts'
import { checkpointConnection } from './checkpoint.ts'

// A wait for this long would be a test that never ends.
const TIMEOUT_MS = 600_000

describe('a checkpoint', () => {
  it('empties the WAL and counts its frames', async () => {
    const { manager } = tempManager()
    const { db, path } = manager.open('session', 'p')
    fill(db, 100)
    manager.open('session', 'q')
    const [first, second] = await manager.checkpoint('session')
    expect(first).toMatchObject({ pluginId: 'p', livePath: path, busy: false })
    expect(first?.walFrames).toBeGreaterThan(20)
    expect(first?.checkpointedFrames).toBe(first?.walFrames)
    expect(second).toMatchObject({ pluginId: 'q', busy: false })
    expect(lstatSync(`${path}-wal`).size).toBe(0)
    expect(await manager.checkpoint('session')).toMatchObject([{ walFrames: 0, checkpointedFrames: 0 }, {}])
    expect(await manager.checkpoint('app')).toEqual([])
  })

  it.each(['a reader', 'a writer'])('reports %s as busy at once, and moves what it can', (who) => {
    const { manager } = tempManager({ busyTimeoutMs: TIMEOUT_MS })
    const storage = manager.open('session', 'p')
    fill(storage.db, 100)
    const reader = storage.reader()
    if (who === 'a reader') reader.db.exec('BEGIN; SELECT 1 FROM big')
    else storage.db.exec('BEGIN IMMEDIATE')
    const rows = who === 'a reader' ? reader.db.prepare('SELECT * FROM big').iterate() : undefined
    rows?.next()
    const own = new Database(storage.path, { timeout: TIMEOUT_MS })
    onTestFinished(() => void own.close())
    const counts = checkpointConnection(own, TIMEOUT_MS)
    expect(counts.busy).toBe(true)
    expect(counts.checkpointedFrames).toBe(counts.walFrames)
    expect(counts.walFrames).toBeGreaterThan(20)
    // It waits again for what comes after it.
    expect(own.pragma('busy_timeout', { simple: true })).toBe(TIMEOUT_MS)
    rows?.return?.()
  })

  it('leaves out frames that a reader still needs, and says how many it moved', () => {
    const { manager } = tempManager()
    const storage = manager.open('session', 'p')
    fill(storage.db, 10)
    const reader = storage.reader()
    const rows = reader.db.prepare('SELECT * FROM big').iterate()
    rows.next()
    fill(storage.db, 100)
    const own = new Database(storage.path)
    onTestFinished(() => void own.close())
    const counts = checkpointConnection(own, 0)
    expect(counts.busy).toBe(true)
    expect(counts.checkpointedFrames).toBeLessThan(counts.walFrames)
    rows.return?.()
    expect(checkpointConnection(own, 0)).toMatchObject({ busy: false, walFrames: counts.walFrames })
  })

  it('of a database without a WAL is nothing, and not busy', () => {
    const { manager } = tempManager()
    const storage = manager.open('session', 'p')
    storage.db.pragma('journal_mode = DELETE')
    const own = new Database(storage.path)
    onTestFinished(() => void own.close())
    expect(checkpointConnection(own, 0)).toEqual({ busy: false, walFrames: 0, checkpointedFrames: 0 })
  })
})
