import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { silentLogger } from '../src/logger.ts'
import { serializeHolder, type LockHolder } from '../src/lock/lock-record.ts'
import type { ProcessSighting, ProcessTable } from '../src/process/process-identity.ts'
import type { SessionLockOptions } from '../src/lock/session-lock.ts'
import { ManualClock, tempDir } from '../src/testing/index.ts'

/** Process 10, which asks. */
export const SELF: LockHolder = {
  pid: 10,
  pidStart: 100,
  bootId: 'boot',
  pidNamespace: 'pid:[1]',
  startedAt: new Date(new ManualClock().now()).toISOString(),
  transport: 'test',
}

/** A machine on which process 10 asks, and the others are as given. */
export function machine(others: Record<number, ProcessSighting> = {}): ProcessTable {
  return {
    self: () => SELF,
    look: (pid) => (pid === SELF.pid ? { pidStart: SELF.pidStart } : (others[pid] ?? 'gone')),
  }
}

/** The directory of a session, with this lock. */
export function session(lock?: string | LockHolder): string {
  const dir = join(tempDir(), 's1')
  mkdirSync(dir)
  if (lock !== undefined) writeFileSync(lockOf(dir), typeof lock === 'string' ? lock : serializeHolder(lock))
  return dir
}

/** The path of its lock. */
export function lockOf(dir: string): string {
  return join(dir, 'session.lock')
}

/** What `session.lock` holds. */
export function read(dir: string): unknown {
  return JSON.parse(readFileSync(lockOf(dir), 'utf8'))
}

/** Makes the lock look as if it was last touched so long ago. */
export function age(dir: string, byMs: number): void {
  const past = new Date(Date.now() - byMs)
  utimesSync(lockOf(dir), past, past)
}

/** Options whose clock and warnings the test holds in its hands. */
export function observed(options: Partial<SessionLockOptions> = {}): {
  options: SessionLockOptions
  clock: ManualClock
  warnings: Record<string, unknown>[]
} {
  const clock = new ManualClock()
  const warnings: Record<string, unknown>[] = []
  const note = (fields: Record<string, unknown>): void => void warnings.push(fields)
  const logger = { ...silentLogger, warn: note, error: note }
  return { options: { transport: 'test', clock, logger, processes: machine(), ...options }, clock, warnings }
}

/** A file system call that fails. */
export function failing(code: string): () => never {
  return () => {
    throw Object.assign(new Error(`${code}: made up`), { code })
  }
}

/** Lets what doesn't wait for the clock happen. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
