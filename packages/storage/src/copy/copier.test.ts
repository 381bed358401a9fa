import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { silentLogger } from '@nexus/host'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { fill } from '../../test/sample-database.ts'
import { tempDir, tempManager } from '../../test/temp-dir.ts'
import { Copier } from './copier.ts'
import { CopyPool } from './copy-pool.ts'

function takeLong(name: string): void {
  if (name !== 'storage:before-vacuum') return
  const endMs = performance.now() + 15
  while (performance.now() < endMs);
}

function copierWith(failpoint?: (name: string) => void): Copier {
  const copier = new Copier({ busyTimeoutMs: 0, pool: new CopyPool(), logger: silentLogger, failpoint })
  onTestFinished(() => copier.close())
  return copier
}

describe('where a copy is made', () => {
  it('depends on the size of the database and of its WAL', () => {
    const dir = tempDir()
    const copier = copierWith()
    const livePath = join(dir, 'a.db')
    const destPath = join(dir, 'b.db')
    const place = { root: dir, path: livePath }
    const inline = (): boolean[] => [
      copier.isInline({ kind: 'snapshot', place, destPath }),
      copier.isInline({ kind: 'foreign', place, destPath, alias: undefined }),
      copier.isInline({ kind: 'checkpoint', place }),
    ]
    expect(inline()).toEqual([true, true, true])
    writeFileSync(livePath, Buffer.alloc(1024 * 1024))
    expect(inline()).toEqual([true, true, true])
    writeFileSync(livePath, Buffer.alloc(1024 * 1024 + 1))
    expect(inline()).toEqual([false, false, true])
    writeFileSync(livePath, '')
    writeFileSync(`${livePath}-wal`, Buffer.alloc(1024 * 1024 + 1))
    expect(inline()).toEqual([false, false, false])
  })

  it('is a worker from then on, when a small one once took long', async () => {
    const dir = tempDir()
    const copier = copierWith(takeLong)
    const place = { root: dir, path: join(dir, 'a.db') }
    const job = { kind: 'snapshot' as const, place, destPath: join(dir, 'b.db') }
    new Database(place.path).exec('CREATE TABLE t (a)').close()
    expect(copier.isInline(job)).toBe(true)
    await copier.run(job, undefined)
    expect(copier.isInline(job)).toBe(false)
  })

  it('is the main thread for a small database, without starting a worker', async () => {
    const { manager, dir } = tempManager()
    manager.open('session', 'p').put('a', '1')
    let turns = 0
    const count = setImmediate(() => turns++)
    await manager.snapshot('session', join(dir, 'copy'))
    clearImmediate(count)
    expect(turns).toBe(0)
  })

  it('is a worker for a large one: the event loop turns all the while', async () => {
    const { manager, dir } = tempManager()
    fill(manager.open('session', 'p').db, 8000)
    // The first starts the worker, whose start would count, too.
    await manager.snapshot('session', join(dir, 'first'))
    const state = { done: false, turns: 0 }
    const pending = manager.snapshot('session', join(dir, 'second')).finally(() => (state.done = true))
    const turn = (): void => {
      state.turns++
      if (!state.done) setImmediate(turn)
    }
    setImmediate(turn)
    await pending
    expect(state.turns).toBeGreaterThan(20)
  })
})
