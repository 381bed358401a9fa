import { statSync } from 'node:fs'
import { join } from 'node:path'
import { silentLogger } from '@nexus/host'
import { ManualClock } from '@nexus/host/testing'
import { expect, it } from 'vitest'
import { fill } from '../../test/sample-database.ts'
import { tempManager } from '../../test/temp-dir.ts'

interface Line {
  pluginId: string
  wal_frames: number
}

function watched(): ReturnType<typeof tempManager> & { clock: ManualClock; warnings: Line[] } {
  const clock = new ManualClock()
  const warnings: Line[] = []
  const logger = { ...silentLogger, warn: (fields: Record<string, unknown>) => void warnings.push(fields as never) }
  return { ...tempManager({ clock, logger }), clock, warnings }
}

async function until(isTrue: () => boolean, clock: ManualClock): Promise<void> {
  for (let turns = 0; !isTrue(); turns++) {
    if (turns > 500) throw new Error('it did not happen')
    await clock.advance(0)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

it('a WAL that has grown large is emptied at intervals, without anyone asking', async () => {
  const { manager, clock, warnings } = watched()
  const { db, path } = manager.open('session', 'p')
  db.pragma('wal_autocheckpoint = 0')
  fill(db, 9000)
  await clock.advance(29_999)
  expect(statSync(`${path}-wal`).size).toBeGreaterThan(8 * 1024 * 1024)
  await clock.advance(1)
  await until(() => statSync(`${path}-wal`).size === 0, clock)
  expect(warnings).toEqual([])
  await until(() => clock.pendingTimers === 1, clock)
  fill(db, 9000)
  await clock.advance(30_000)
  await until(() => statSync(`${path}-wal`).size === 0, clock)
})

it('a WAL that a reader keeps from being emptied is told once, and again when it happens again', async () => {
  const { manager, dir, warnings } = watched()
  const storage = manager.open('session', 'p')
  storage.put('a', '1')
  const block = (): (() => void) => {
    const reader = storage.reader()
    reader.db.exec('BEGIN')
    reader.db.pragma('schema_version')
    reader.db.prepare('SELECT count(*) FROM kv').get()
    storage.put('b', String(Math.random()))
    return () => reader.db.exec('COMMIT')
  }
  const unblock = block()
  await manager.checkpoint('session')
  await manager.snapshot('session', join(dir, 'copy'))
  await manager.checkpoint('session')
  expect(warnings).toMatchObject([{ pluginId: 'p', path: storage.path }])
  unblock()
  await manager.checkpoint('session')
  expect(warnings).toHaveLength(1)
  block()
  await manager.checkpoint('session')
  expect(warnings).toHaveLength(2)
})
