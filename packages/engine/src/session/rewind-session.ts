import { join } from 'node:path'
import { acquireSessionLock, type SessionLockOptions } from '@nexus/host'
import { restore, rewind, type JournalLock, type RewoundJournal } from '@nexus/journal'

/** How the session's lock is taken; `waitMs` waits for a live holder. */
export type RewindSessionOptions = Pick<SessionLockOptions, 'clock' | 'logger' | 'waitMs' | 'signal'>

/**
 * Makes the journal of the session at `sessionDir` end at `toSeq`, with the session's lock held. What it was before is kept
 * below `journal/archive/`.
 *
 * @throws SessionLockedError (`LOCKED`) while a process has the session open; `INVALID_ARGUMENT` when the journal has no such
 *   seq, `PRECONDITION` when it was swept from this copy, `NOT_FOUND`, `CORRUPT`, `LOCAL_IO`
 */
export function rewindSession(
  sessionDir: string,
  toSeq: number,
  options: RewindSessionOptions = {},
): Promise<RewoundJournal> {
  return rewind(join(sessionDir, 'journal'), toSeq, { lock: lockOf(sessionDir, options) })
}

/** Brings a journal back that {@link rewindSession} archived under `name`; the present one is archived first. Rejects likewise. */
export function restoreSession(
  sessionDir: string,
  name: string,
  options: RewindSessionOptions = {},
): Promise<RewoundJournal> {
  return restore(join(sessionDir, 'journal'), name, { lock: lockOf(sessionDir, options) })
}

function lockOf(sessionDir: string, options: RewindSessionOptions): JournalLock {
  return async () => {
    const lock = await acquireSessionLock(sessionDir, { ...options, transport: 'rewind' })
    return () => lock.release()
  }
}
