import { basename } from 'node:path'
import { NexusError } from '@nexus/errors'
import type { LockHolder } from './lock-record.ts'

/**
 * The session is open elsewhere: in another process or thread, or already in this one. Code `LOCKED`, retryable: it can be
 * opened when its holder closes it or dies, and `waitForLock` waits for that.
 */
export class SessionLockedError extends NexusError {
  readonly sessionDir: string
  readonly holder: LockHolder
  /** How long the holder has had it, in milliseconds; 0 where its record doesn't say. */
  readonly heldForMs: number

  /** @param waitedMs how long it was waited for in vain */
  constructor(sessionDir: string, holder: LockHolder, why: string, nowMs: number, waitedMs: number) {
    const heldForMs = Math.max(0, nowMs - Date.parse(holder.startedAt) || 0)
    const waited = waitedMs > 0 ? `; waited ${waitedMs} ms for it` : ''
    super(
      'LOCKED',
      `session ${basename(sessionDir)} is held by ${why}; it has been held for ${Math.round(heldForMs / 1000)} s${waited}`,
      { op: 'session.lock', key: sessionDir, retryable: true },
    )
    this.heldForMs = heldForMs
    this.name = 'SessionLockedError'
    this.sessionDir = sessionDir
    this.holder = holder
  }
}
