import { basename } from 'node:path'
import { NexusError } from '@nexus/errors'
import type { LockHolder } from './lock-record.ts'

/** The session is open elsewhere: in another process, or already in this one. Code `LOCKED`. */
export class SessionLockedError extends NexusError {
  readonly sessionDir: string
  readonly holder: LockHolder

  constructor(sessionDir: string, holder: LockHolder, why: string) {
    super('LOCKED', `session ${basename(sessionDir)} is held by ${why}`, { op: 'session.lock', key: sessionDir })
    this.name = 'SessionLockedError'
    this.sessionDir = sessionDir
    this.holder = holder
  }
}
