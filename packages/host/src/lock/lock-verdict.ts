import type { LockFile } from './lock-record.ts'
import type { ProcessTable } from '../process/process-identity.ts'

/** How often a holder touches its lock file, for those who can't see its pid. */
export const LOCK_REFRESH_MS = 5_000
/** How old an untouched lock of another pid namespace must be before its holder counts as dead. */
export const LOCK_STALE_MS = 30_000
/** And how long it must then stay untouched under our eyes: a clock that was set forward makes every lock look old. */
export const LOCK_WATCH_MS = 7_500

/**
 * What a lock file says about its holder. `silent`: its holder can't be looked for, being of another pid namespace or a
 * thread on a platform that tells nothing of threads, and has not touched it for long; who takes it over watches it first.
 */
export type LockVerdict = { state: 'live' } | { state: 'dead' | 'silent'; why: string }

/**
 * Judges the holder of a lock. Its pid counts only when it is of this boot and this pid namespace.
 *
 * @param nowMs by the clock of the file system that `file` is on
 * @see docs/concepts/session.md
 */
export function judgeLock(file: LockFile, processes: ProcessTable, nowMs: number): LockVerdict {
  const { holder } = file
  if (holder === undefined) return { state: 'dead', why: 'it is not a lock record' }
  const self = processes.self()
  if (holder.bootId !== self.bootId) return { state: 'dead', why: 'its holder ran before the machine was booted' }
  if (holder.pidNamespace !== self.pidNamespace) return judgeByAge(file, nowMs, 'its holder, in another container,')
  const sighting = processes.look(holder.pid)
  if (sighting === 'gone') return { state: 'dead', why: `process ${holder.pid} is gone` }
  const known = holder.pidStart !== 0 && sighting.pidStart !== 0
  if (known && holder.pidStart !== sighting.pidStart) {
    return { state: 'dead', why: `process ${holder.pid} is another one by now` }
  }
  if (holder.thread === undefined) return { state: 'live' }
  const runs = processes.threadRuns?.(holder.pid, holder.thread)
  if (runs === undefined) return judgeByAge(file, nowMs, `a worker thread of process ${holder.pid}`)
  return runs ? { state: 'live' } : { state: 'dead', why: `its worker thread of process ${holder.pid} was ended` }
}

/** A time far in the future says as little as an old one: the clock was set back, and a holder that lives will touch it. */
function judgeByAge(file: LockFile, nowMs: number, who: string): LockVerdict {
  if (Math.abs(nowMs - file.mtimeMs) < LOCK_STALE_MS) return { state: 'live' }
  return { state: 'silent', why: `${who} stopped refreshing it` }
}
