import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { SELF, age, lockOf, machine, observed, read, session } from '../../test/lock-fixtures.ts'
import { serializeHolder } from './lock-record.ts'
import { LOCK_REFRESH_MS } from './lock-verdict.ts'
import { acquireSessionLock, adoptSessionLock, readLockState, writeLockFile } from './session-lock.ts'

describe('a held lock', () => {
  it('is refreshed without holding the process, by the file system’s own time', async () => {
    const dir = session()
    const { options, clock } = observed()
    const lock = await acquireSessionLock(dir, options)
    age(dir, 3_600_000)
    expect([...clock.timers].every(({ held }) => !held)).toBe(true)
    clock.advanceNow(LOCK_REFRESH_MS)
    expect(Date.now() - statSync(lockOf(dir)).mtimeMs).toBeLessThan(60_000)
    expect(read(dir)).toMatchObject({ pid: 10 })
    lock.release()
    expect(clock.timers.size).toBe(0)
  })

  it('notices that another process took it over, says so once, and leaves that one alone', async () => {
    const dir = session()
    let lost = 0
    const { options, clock, warnings } = observed({ onLost: () => (lost += 1) })
    const lock = await acquireSessionLock(dir, options)
    const theirs = serializeHolder({ ...SELF, pid: 20 })
    writeFileSync(join(dir, 'theirs'), theirs)
    renameSync(join(dir, 'theirs'), lockOf(dir))
    expect(lock.lost).toBe(false)
    clock.advanceNow(3 * LOCK_REFRESH_MS)
    expect(lock.lost).toBe(true)
    expect(lost).toBe(1)
    expect(warnings).toHaveLength(1)
    lock.release()
    expect(readFileSync(lockOf(dir), 'utf8')).toBe(theirs)
    expect(clock.timers.size).toBe(0)
  })

  it('leaves another’s lock alone on release, also before it noticed', async () => {
    const dir = session()
    const lock = await acquireSessionLock(dir, observed().options)
    rmSync(lockOf(dir))
    writeFileSync(lockOf(dir), 'theirs')
    lock.release()
    expect(readFileSync(lockOf(dir), 'utf8')).toBe('theirs')
  })

  it('is lost when its file is removed', async () => {
    const dir = session()
    const { options, clock } = observed()
    const lock = await acquireSessionLock(dir, options)
    rmSync(lockOf(dir))
    clock.advanceNow(LOCK_REFRESH_MS)
    expect(lock.lost).toBe(true)
    lock.release()
  })

  it('moves with its directory, and is not mistaken for the lock of the tree that takes its place', async () => {
    const dir = session()
    const { options, clock } = observed()
    const lock = await acquireSessionLock(dir, options)
    const aside = `${dir}-aside`
    renameSync(dir, aside)
    clock.advanceNow(LOCK_REFRESH_MS)
    expect(lock.lost).toBe(false)
    mkdirSync(dir)
    await writeLockFile(dir, options)
    clock.advanceNow(LOCK_REFRESH_MS)
    expect(lock.lost).toBe(false)
    lock.relocate(aside)
    lock.release()
    expect(readdirSync(aside)).toEqual([])
    expect(existsSync(lockOf(dir))).toBe(true)
    const adopted = await adoptSessionLock(dir)
    adopted.release()
    expect(readdirSync(dir)).toEqual([])
  })

  it('stays behind when it is abandoned, as a killed process leaves it', async () => {
    const dir = session()
    const { options, clock } = observed()
    const lock = await acquireSessionLock(dir, options)
    lock.abandon()
    lock.release()
    expect(clock.timers.size).toBe(0)
    expect(readLockState(dir, { processes: machine() })).toBe('live')
  })

  it('goes on when a refresh fails, and says so once', async () => {
    const dir = session()
    const { options, clock, warnings } = observed()
    const lock = await acquireSessionLock(dir, options)
    // A path that can't even be looked at.
    symlinkSync('loop', join(dir, 'loop'))
    lock.relocate(join(dir, 'loop'))
    clock.advanceNow(2 * LOCK_REFRESH_MS)
    expect(warnings).toHaveLength(1)
    expect(lock.lost).toBe(false)
    lock.abandon()
  })
})

describe('a staged lock', () => {
  it('locks the tree from the moment it is renamed into place', async () => {
    const staging = session()
    const dir = join(staging, '../final')
    const { options, clock } = observed()
    await writeLockFile(staging, options)
    expect(readLockState(staging, { processes: machine() })).toBe('live')
    renameSync(staging, dir)
    await expect(acquireSessionLock(dir, options)).rejects.toMatchObject({ code: 'LOCKED' })
    let lost = 0
    const lock = await adoptSessionLock(dir, { onLost: () => (lost += 1) })
    age(dir, 3_600_000)
    clock.advanceNow(LOCK_REFRESH_MS)
    expect(Date.now() - statSync(lockOf(dir)).mtimeMs).toBeLessThan(60_000)
    rmSync(lockOf(dir))
    clock.advanceNow(LOCK_REFRESH_MS)
    expect(lost).toBe(1)
    expect(lock.lost).toBe(true)
  })

  it('is kept fresh while the tree is being put together', async () => {
    const staging = session()
    const { options, clock } = observed()
    await writeLockFile(staging, options)
    age(staging, 3_600_000)
    clock.advanceNow(LOCK_REFRESH_MS)
    expect(Date.now() - statSync(lockOf(staging)).mtimeMs).toBeLessThan(60_000)
    const lock = await adoptSessionLock(staging)
    lock.release()
  })

  it('ends quietly with a staged tree that is removed', async () => {
    const staging = session()
    let lost = 0
    const { options, clock, warnings } = observed({ onLost: () => (lost += 1) })
    await writeLockFile(staging, options)
    rmSync(staging, { recursive: true })
    clock.advanceNow(LOCK_REFRESH_MS)
    expect(clock.timers.size).toBe(0)
    expect([lost, warnings.length]).toEqual([0, 0])
  })

  it('is not found where this process did not put one', async () => {
    await expect(adoptSessionLock(session())).rejects.toMatchObject({ code: 'PRECONDITION' })
    await expect(adoptSessionLock(session({ ...SELF }))).rejects.toMatchObject({ code: 'PRECONDITION' })
  })
})
