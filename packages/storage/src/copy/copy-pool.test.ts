import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { silentLogger } from '@nexus/host'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { column, fill } from '../../test/sample-database.ts'
import { tempDir } from '../../test/temp-dir.ts'
import { StorageManager } from '../storage-manager.ts'
import { CopyPool, type CopyPoolOptions } from './copy-pool.ts'

const fixture = (name: string): URL => new URL(`../../test/fixtures/${name}`, import.meta.url)

interface Setting {
  managers: StorageManager[]
  manager: StorageManager
  pool: CopyPool
  dir: string
  warnings: string[]
}

/** Managers that share a pool, two databases of 2 MB each. Those fixtures that fail do so as often as `failures` says. */
function setting(options: CopyPoolOptions, { failures = 0, managers: count = 1 } = {}): Setting {
  const dir = tempDir()
  process.env['NEXUS_TEST_FAILURES'] = join(dir, 'failures')
  writeFileSync(join(dir, 'failures'), String(failures))
  const warnings: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) }
  const pool = new CopyPool(options)
  const managers = Array.from({ length: count }, (_, index) => {
    const storageRoot = join(dir, 'root')
    const manager = new StorageManager({ sessionDir: join(dir, `session${index}`), storageRoot, logger }, pool)
    onTestFinished(() => manager.dispose())
    for (const id of ['a', 'b']) fill(manager.open('session', id).db, 2000)
    return manager
  })
  return { managers, manager: managers[0] as StorageManager, pool, dir, warnings }
}

async function expectCopies(manager: StorageManager, destDir: string): Promise<void> {
  const copies = await manager.snapshot('session', destDir)
  expect(copies.map(({ snapshotPath }) => column(snapshotPath, 'SELECT count(*) FROM big'))).toEqual([[2000], [2000]])
}

const nextTimer = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

afterEach(() => {
  delete process.env['NEXUS_TEST_FAILURES']
})

describe('threads', () => {
  it('are two at most for all sessions of the process, and end when there is nothing to copy', async () => {
    const { managers, pool, dir } = setting({ idleMs: 50 }, { managers: 5 })
    let most = 0
    const watch = setInterval(() => (most = Math.max(most, pool.threads)), 1)
    await Promise.all(managers.map((manager, index) => expectCopies(manager, join(dir, `copy${index}`))))
    clearInterval(watch)
    expect(most).toBe(2)
    while (pool.threads > 0) await nextTimer(10)
    await expectCopies(managers[0] as StorageManager, join(dir, 'again'))
  })

  it('are not waited for by a manager that is disposed while others keep them busy', async () => {
    const { managers, dir } = setting({ maxThreads: 1 }, { managers: 2 })
    const [busy, disposed] = managers as [StorageManager, StorageManager]
    // A large WAL would be emptied by a thread, before the handles close.
    await disposed.checkpoint('session')
    let isDone = false
    const others = busy.snapshot('session', join(dir, 'busy')).finally(() => (isDone = true))
    const dropped = disposed.snapshot('session', join(dir, 'dropped'))
    await Promise.all([disposed.dispose(), expect(dropped).rejects.toMatchObject({ code: 'CLOSED' })])
    expect(isDone).toBe(false)
    expect(readdirSync(join(dir, 'dropped'), { recursive: true })).not.toContain(join('a', 'store.db'))
    expect(await others).toHaveLength(2)
  })
})

describe('a worker that dies', () => {
  const workerUrl = fixture('dying-worker.mjs')

  it('is replaced, and the copy it was on is made again from the start', async () => {
    const { manager, dir, warnings } = setting({ workerUrl }, { failures: 1 })
    await expectCopies(manager, join(dir, 'copy'))
    expect(warnings).toEqual(['the storage worker died: starting another'])
  })

  it('costs the copy when it dies over it twice; those behind it are made, and the next snapshot works', async () => {
    const { manager, dir } = setting({ workerUrl, maxThreads: 1 }, { failures: 2 })
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
    const { manager, dir, warnings } = setting({ workerUrl: fixture('broken-worker.mjs') })
    for (const round of ['1', '2']) await expectCopies(manager, join(dir, round))
    await manager.snapshotForeign(manager.paths('session')[0] as string, join(dir, 'foreign.db'))
    expect(column(join(dir, 'foreign.db'), 'SELECT count(*) FROM big')).toEqual([2000])
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatch(/main thread/)
  })

  it('is tried again later, and used from then on', async () => {
    const { manager, pool, dir, warnings } = setting(
      { workerUrl: fixture('late-worker.mjs'), restartMs: 20 },
      { failures: 1 },
    )
    await expectCopies(manager, join(dir, 'without'))
    expect(warnings).toHaveLength(1)
    await nextTimer(25)
    await expectCopies(manager, join(dir, 'with'))
    expect(pool.threads).toBeGreaterThan(0)
    expect(warnings).toHaveLength(1)
  })

  it('does not stop the event loop for a whole database meanwhile', async () => {
    const { manager, dir } = setting({ workerUrl: fixture('broken-worker.mjs'), restartMs: 60_000 })
    fill(manager.open('session', 'a').db, 10_000)
    await manager.snapshot('session', join(dir, 'first'))
    let turns = 0
    let isDone = false
    const turn = (): void => {
      turns++
      if (!isDone) setImmediate(turn)
    }
    setImmediate(turn)
    await manager.snapshot('session', join(dir, 'second')).finally(() => (isDone = true))
    expect(turns).toBeGreaterThan(10)
  })
})
