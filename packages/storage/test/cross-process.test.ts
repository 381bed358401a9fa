import { lstatSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startChild } from './child.ts'
import { column, fill, inspect, integrityOf } from './sample-database.ts'
import { tempManager } from './temp-dir.ts'

const SIZES_KB = [1, 3000]

describe.each(SIZES_KB)('with another process on the same database of %i KiB', (sizeKb) => {
  it.each(['plugin', 'foreign'])('a %s snapshot loses none of its acknowledged writes', async (kind) => {
    const { manager, dir } = tempManager()
    const storage = manager.open('session', 'p')
    fill(storage.db, sizeKb)
    const child = startChild('writer-child.ts', [storage.path])
    await child.heard(1)
    const copies: { path: string; acknowledged: number }[] = []
    for (let round = 0; round < 6; round++) {
      const acknowledged = child.messages.length
      const path = join(dir, `copy${round}/p/store.db`)
      if (kind === 'plugin') await manager.snapshot('session', join(dir, `copy${round}`))
      else await manager.snapshotForeign(storage.path, path)
      await manager.checkpoint('session')
      copies.push({ path, acknowledged })
      await child.heard(acknowledged + 20)
    }
    child.process.send('stop')
    expect(await child.ended).toBe(0)
    const acknowledged = child.messages.length
    expect(acknowledged).toBeGreaterThan(100)
    // The last rows may be committed with their acknowledgement still on its way.
    const live = column(storage.path, 'SELECT n FROM acknowledged ORDER BY n')
    expect(live.slice(0, acknowledged)).toEqual(child.messages.slice(0, acknowledged))
    expect(integrityOf(storage.path)).toBe('ok')
    for (const copy of copies) {
      expect(integrityOf(copy.path)).toBe('ok')
      const rows = column(copy.path, 'SELECT n FROM acknowledged ORDER BY n')
      expect(rows).toEqual(live.slice(0, rows.length))
      expect(rows.length).toBeGreaterThanOrEqual(copy.acknowledged)
    }
  })

  it('a writer killed in the middle costs nothing of what it had acknowledged', async () => {
    const { manager, dir } = tempManager()
    const storage = manager.open('session', 'p')
    fill(storage.db, sizeKb)
    const child = startChild('writer-child.ts', [storage.path])
    await child.heard(50)
    const pending = manager.snapshot('session', join(dir, 'copy'))
    child.process.kill('SIGKILL')
    await child.ended
    await pending
    const acknowledged = child.messages.length
    await manager.snapshot('session', join(dir, 'after'))
    for (const path of [storage.path, join(dir, 'after/p/store.db')]) {
      const rows = column(path, 'SELECT count(*) FROM acknowledged')[0] as number
      expect(rows).toBeGreaterThanOrEqual(acknowledged)
      expect(integrityOf(path)).toBe('ok')
    }
  })
})

it('several processes can open a new database at the same moment', async () => {
  const { manager, dir } = tempManager()
  const names = ['a', 'b', 'c', 'd']
  const children = names.map((name) => startChild('opener-child.ts', [dir, name]))
  await Promise.all(children.map((child) => child.heard(1)))
  for (const child of children) child.process.send('go')
  expect(await Promise.all(children.map(({ ended }) => ended))).toEqual([0, 0, 0, 0])
  expect(manager.open('session', 'p').list()).toEqual(names)
})

it('a database that another process is writing to, without a WAL, can be opened once that is over', async () => {
  const { manager, dir } = tempManager()
  const path = join(dir, 'session/plugins/p/store.db')
  mkdirSync(dirname(path), { recursive: true })
  const child = startChild('holder-child.ts', [path])
  await child.heard(1)
  child.process.send('release soon')
  // SQLite refuses to enter WAL here without asking its busy handler.
  expect(manager.open('session', 'p').db.prepare('SELECT a FROM t').pluck().all()).toEqual([1])
  expect(await child.ended).toBe(0)
})

// Closing any descriptor of a file drops every lock that the process has on it, so the locks are what shows an open that went
// past SQLite.
it.runIf(process.platform === 'linux')(
  'nothing that the manager does drops the locks of an open connection',
  async () => {
    const { manager, dir } = tempManager()
    const storage = manager.open('session', 'p')
    fill(storage.db, 3000)
    const { ino } = lstatSync(storage.path)
    const locks = (): number =>
      readFileSync('/proc/locks', 'utf8')
        .split('\n')
        .filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `)).length
    expect(storage.list()).toEqual([])
    expect(locks()).toBeGreaterThan(0)
    const steps: (() => unknown)[] = [
      () => manager.open('session', 'p'),
      () => manager.open('session', 'q'),
      () => manager.paths('session'),
      () => manager.checkpoint('session'),
      () => manager.snapshot('session', join(dir, 'copy')),
      () => manager.snapshot('session', join(dir, 'copy')).catch(() => undefined),
      () => manager.snapshotForeign(storage.path, join(dir, 'foreign.db')),
      () => manager.snapshotForeign(storage.path, storage.path).catch(() => undefined),
      () => storage.reader().release(),
      () => inspect(storage.path, (db) => db.pragma('integrity_check')),
    ]
    for (const step of steps) {
      await step()
      expect(locks()).toBeGreaterThan(0)
    }
    // The measure works: this is what an open past SQLite does.
    readFileSync(storage.path)
    expect(locks()).toBe(0)
  },
)
