import nodeFs, { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { age, failing, lockOf, machine, observed, read, SELF, session, settle } from '../../test/lock-fixtures.ts'
import { tempDir } from '../testing/index.ts'
import { systemClock } from '../time/clock.ts'
import { serializeHolder, type LockFs, type LockHolder } from './lock-record.ts'
import { LOCK_STALE_MS, LOCK_WATCH_MS } from './lock-verdict.ts'
import { systemProcesses, type ProcessSighting } from '../process/process-identity.ts'
import { acquireSessionLock, readLockState } from './session-lock.ts'

describe('acquireSessionLock', () => {
  it('writes who holds the session, and removes it on release', async () => {
    const dir = session()
    const { options } = observed()
    const lock = await acquireSessionLock(dir, options)
    expect(read(dir)).toEqual({
      pid: 10,
      pid_start: 100,
      boot_id: 'boot',
      pid_namespace: 'pid:[1]',
      started_at: '2026-11-29T16:34:12.000Z',
      transport: 'test',
    })
    expect(statSync(lockOf(dir)).mode & 0o777).toBe(0o600 & ~process.umask())
    expect(readdirSync(dir)).toEqual(['session.lock'])
    expect(lock.holder).toEqual(SELF)
    lock.release()
    lock.release()
    expect(readdirSync(dir)).toEqual([])
  })

  it('refuses the same session twice in one process', async () => {
    const dir = session()
    const lock = await acquireSessionLock(dir, { transport: 'test' })
    await expect(acquireSessionLock(dir, { transport: 'again' })).rejects.toMatchObject({
      name: 'SessionLockedError',
      code: 'LOCKED',
      sessionDir: dir,
      holder: { pid: process.pid, transport: 'test' },
      message: expect.stringContaining('this very process'),
    })
    lock.release()
    const again = await acquireSessionLock(dir, { transport: 'again' })
    again.release()
  })

  it('refuses what a live process holds, and names it', async () => {
    const dir = session({ ...SELF, pid: 20, pidStart: 200, transport: 'http' })
    const { options, warnings } = observed({ processes: machine({ 20: { pidStart: 200 } }) })
    await expect(acquireSessionLock(dir, options)).rejects.toMatchObject({
      code: 'LOCKED',
      message: expect.stringMatching(/session s1 .*process 20 \(http, since .*session\.lock/),
    })
    expect(readdirSync(dir)).toEqual(['session.lock'])
    expect(warnings).toEqual([])
  })

  it('takes a start time that is not known for the right one', async () => {
    const dir = session({ ...SELF, pid: 20, pidStart: 200 })
    const { options } = observed({ processes: machine({ 20: { pidStart: 0 } }) })
    await expect(acquireSessionLock(dir, options)).rejects.toMatchObject({ code: 'LOCKED' })
  })

  it.each<[string, Partial<LockHolder>, Record<number, ProcessSighting>, RegExp]>([
    ['whose process is gone', {}, {}, /process 20 is gone/],
    ['whose pid another process has by now', {}, { 20: { pidStart: 999 } }, /another one by now/],
    ['of an earlier boot, though the pid runs', { bootId: 'old' }, { 20: { pidStart: 200 } }, /booted/],
    ['of an earlier boot and another namespace', { bootId: 'old', pidNamespace: 'pid:[2]' }, {}, /booted/],
  ])('takes over a lock %s, with a warning', async (_name, difference, others, why) => {
    const dir = session({ ...SELF, pid: 20, pidStart: 200, ...difference })
    const { options, warnings } = observed({ processes: machine(others) })
    const lock = await acquireSessionLock(dir, options)
    expect(warnings).toEqual([
      { session_dir: dir, holder_pid: 20, holder_transport: 'test', why: expect.stringMatching(why) },
    ])
    expect(read(dir)).toMatchObject({ pid: 10 })
    expect(readdirSync(dir)).toEqual(['session.lock'])
    lock.release()
  })

  it.each([
    '',
    '{',
    'null',
    '[]',
    '{"pid":"20"}',
    '{"pid":-1,"pid_start":1,"boot_id":"","pid_namespace":""}',
    '\0'.repeat(200),
  ])('takes over the garbage %j after a second look', async (garbage) => {
    const dir = session(garbage)
    const { options, clock, warnings } = observed()
    const taking = acquireSessionLock(dir, options)
    await settle()
    clock.advanceNow(50)
    const lock = await taking
    expect(warnings).toMatchObject([{ why: 'it is not a lock record' }])
    expect(read(dir)).toMatchObject({ pid: 10 })
    lock.release()
  })

  it('takes over a link in the place of the lock without touching what it leads to', async () => {
    const dir = session()
    const elsewhere = join(tempDir(), 'target')
    writeFileSync(elsewhere, 'mine')
    symlinkSync(elsewhere, lockOf(dir))
    const lock = await acquireSessionLock(dir, { transport: 'test' })
    expect(readFileSync(elsewhere, 'utf8')).toBe('mine')
    expect(read(dir)).toMatchObject({ pid: process.pid })
    lock.release()
  })

  it('looks again at an empty lock: somebody may just be writing it', async () => {
    const dir = session('')
    const { options, clock } = observed({ processes: machine({ 20: { pidStart: 200 } }) })
    const taking = acquireSessionLock(dir, options)
    await settle()
    writeFileSync(lockOf(dir), serializeHolder({ ...SELF, pid: 20, pidStart: 200 }))
    clock.advanceNow(50)
    await expect(taking).rejects.toMatchObject({ code: 'LOCKED', holder: { pid: 20 } })
  })

  it('reports what it can not lock', async () => {
    await expect(acquireSessionLock('/nowhere/at/all', { transport: 't' })).rejects.toMatchObject({ code: 'NOT_FOUND' })
    const dir = session()
    mkdirSync(lockOf(dir))
    const { options, clock } = observed()
    const taking = acquireSessionLock(dir, options)
    await settle()
    clock.advanceNow(50)
    await expect(taking).rejects.toMatchObject({ code: 'LOCAL_IO' })
    expect(readdirSync(dir)).toEqual(['session.lock'])
  })

  it('works on a file system without hard links', async () => {
    const fs: LockFs = { ...nodeFs, linkSync: failing('EPERM') }
    const dir = session({ ...SELF, pid: 20 })
    const { options } = observed({ fs })
    const lock = await acquireSessionLock(dir, options)
    expect(readdirSync(dir)).toEqual(['session.lock'])
    await expect(acquireSessionLock(dir, options)).rejects.toMatchObject({ code: 'LOCKED' })
    lock.release()
    const again = await acquireSessionLock(dir, options)
    expect(read(dir)).toMatchObject({ pid: 10 })
    again.release()
    expect(readdirSync(dir)).toEqual([])
  })

  it('leaves no attempt of its own behind when a take-over fails half way', async () => {
    const dir = session({ ...SELF, pid: 20 })
    const { options } = observed({ fs: { ...nodeFs, renameSync: failing('EIO') } })
    await expect(acquireSessionLock(dir, options)).rejects.toMatchObject({ code: 'LOCAL_IO' })
    expect(readdirSync(dir)).toEqual(['session.lock'])
    const lock = await acquireSessionLock(dir, observed().options)
    lock.release()
  })
})

describe('a lock of another pid namespace', () => {
  const other: LockHolder = { ...SELF, pid: 20, pidNamespace: 'pid:[2]' }

  it('is live as long as it is refreshed, whatever its pid says here', async () => {
    const dir = session(other)
    age(dir, LOCK_STALE_MS - 5_000)
    const { options } = observed()
    await expect(acquireSessionLock(dir, options)).rejects.toMatchObject({
      code: 'LOCKED',
      message: expect.stringContaining('another container'),
    })
  })

  it('is judged by the time of the file system: a clock that runs ahead steals nothing', async () => {
    const dir = session(other)
    const { options, clock } = observed()
    clock.advanceNow(3_600_000)
    await expect(acquireSessionLock(dir, options)).rejects.toMatchObject({ code: 'LOCKED' })
  })

  it.each([
    ['old', LOCK_STALE_MS + 5_000],
    ['of a time to come', -LOCK_STALE_MS - 5_000],
  ])('is taken over when it is %s and stays untouched under our eyes', async (_what, ageMs) => {
    const dir = session(other)
    age(dir, ageMs)
    const { options, clock, warnings } = observed()
    let taken = false
    const taking = acquireSessionLock(dir, options).finally(() => {
      taken = true
    })
    await settle()
    clock.advanceNow(LOCK_WATCH_MS - 1)
    await settle()
    expect(taken).toBe(false)
    clock.advanceNow(1)
    const lock = await taking
    expect(warnings).toMatchObject([{ why: expect.stringContaining('another container') }])
    lock.release()
  })

  it('is live after all when it is touched while we watch: the clock was set forward', async () => {
    const dir = session(other)
    age(dir, 3_600_000)
    const { options, clock } = observed()
    const taking = acquireSessionLock(dir, options)
    await settle()
    age(dir, 0)
    clock.advanceNow(LOCK_WATCH_MS)
    await expect(taking).rejects.toMatchObject({ code: 'LOCKED' })
  })

  it('can be given up on', async () => {
    const dir = session(other)
    age(dir, 3_600_000)
    const abort = new AbortController()
    const { options, clock } = observed({ signal: abort.signal })
    const taking = acquireSessionLock(dir, options)
    await settle()
    abort.abort(new Error('enough'))
    await expect(taking).rejects.toThrow('enough')
    expect(clock.timers.size).toBe(0)
    expect(readdirSync(dir)).toEqual(['session.lock'])
  })
})

describe('readLockState', () => {
  it('tells free, live and dead apart and changes nothing', () => {
    const processes = machine({ 20: { pidStart: 200 } })
    const cases: [string | LockHolder | undefined, string][] = [
      [undefined, 'free'],
      [{ ...SELF, pid: 20, pidStart: 200 }, 'live'],
      [{ ...SELF, pid: 20, pidStart: 201 }, 'dead'],
      [{ ...SELF, pid: 21 }, 'dead'],
      [{ ...SELF, bootId: 'old' }, 'dead'],
      ['', 'dead'],
    ]
    for (const [lock, state] of cases) {
      const dir = session(lock)
      expect(readLockState(dir, { processes })).toBe(state)
      expect(readdirSync(dir)).toEqual(lock === undefined ? [] : ['session.lock'])
    }
    expect(readLockState('/nowhere/at/all')).toBe('free')
  })

  it('calls another container live until it was silent for very long', () => {
    const dir = session({ ...SELF, pidNamespace: 'pid:[2]' })
    const state = (): string => readLockState(dir, { processes: machine(), clock: systemClock })
    expect(state()).toBe('live')
    age(dir, 5 * LOCK_STALE_MS)
    expect(state()).toBe('live')
    age(dir, 11 * LOCK_STALE_MS)
    expect(state()).toBe('dead')
  })

  it('sees this process’s own lock', async () => {
    const dir = session()
    const lock = await acquireSessionLock(dir, { transport: 'test' })
    expect(readLockState(dir)).toBe('live')
    expect(read(dir)).toMatchObject({ pid_start: systemProcesses.self().pidStart })
    lock.release()
  })
})
