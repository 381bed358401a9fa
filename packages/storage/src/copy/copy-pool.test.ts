import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { column, fill } from '../../test/sample-database.ts'
import { tempDir } from '../../test/temp-dir.ts'
import { silentLogger } from '../logger.ts'
import { StorageManager } from '../storage-manager.ts'

const fixture = (name: string): URL => new URL(`../test/fixtures/${name}`, import.meta.url)

function withWorker(name: string, deaths = 0): { manager: StorageManager; dir: string; warnings: string[] } {
  const dir = tempDir()
  process.env['NEXUS_TEST_DEATHS'] = join(dir, 'deaths')
  writeFileSync(join(dir, 'deaths'), String(deaths))
  const warnings: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) }
  const options = { sessionDir: join(dir, 'session'), storageRoot: join(dir, 'root'), logger }
  const manager = new StorageManager(options, fixture(name))
  onTestFinished(() => manager.dispose())
  for (const id of ['a', 'b']) fill(manager.open('session', id).db, 2000)
  return { manager, dir, warnings }
}

afterEach(() => {
  delete process.env['NEXUS_TEST_DEATHS']
})

describe('a worker that dies', () => {
  it('is replaced, and the copy it was on is made again from the start', async () => {
    const { manager, dir, warnings } = withWorker('dies-twice-worker.mjs', 1)
    const copies = await manager.snapshot('session', join(dir, 'copy'))
    expect(copies.map(({ snapshotPath }) => column(snapshotPath, 'SELECT count(*) FROM big'))).toEqual([[2000], [2000]])
    expect(warnings).toEqual(['the storage worker died: starting another'])
  })

  it('costs the copy when it dies over it twice; those behind it are made, and the next snapshot works', async () => {
    const { manager, dir } = withWorker('dies-twice-worker.mjs', 2)
    const live = manager.paths('session')
    const [first, second] = await Promise.allSettled(
      live.map((path, index) => manager.snapshotForeign(path, join(dir, `copy${index}.db`))),
    )
    expect(first).toMatchObject({ status: 'rejected', reason: { code: 'UNAVAILABLE', retryable: true, key: live[0] } })
    expect(second).toMatchObject({ status: 'fulfilled' })
    expect(existsSync(join(dir, 'copy0.db'))).toBe(false)
    expect(column(join(dir, 'copy1.db'), 'SELECT count(*) FROM big')).toEqual([2000])
    expect(await manager.snapshot('session', join(dir, 'copy'))).toHaveLength(2)
  })
})

describe('a worker that can not be started', () => {
  it('is done without, and said so once', async () => {
    const { manager, dir, warnings } = withWorker('broken-worker.mjs')
    for (const round of ['1', '2']) {
      const copies = await manager.snapshot('session', join(dir, round))
      expect(copies.map(({ snapshotPath }) => column(snapshotPath, 'SELECT count(*) FROM big'))).toEqual([
        [2000],
        [2000],
      ])
    }
    await manager.snapshotForeign(manager.paths('session')[0] as string, join(dir, 'foreign.db'))
    expect(column(join(dir, 'foreign.db'), 'SELECT count(*) FROM big')).toEqual([2000])
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatch(/main thread/)
  })
})
