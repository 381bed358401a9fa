import { join } from 'node:path'
import { LOCK_FILE, readLockState, readPlainFile, systemProcesses } from '@nexus/host'

/** What a look at a session's lock says, without taking it. */
export interface LockLook {
  /** `live` when in doubt; `dead`: its holder was killed. */
  readonly state: 'free' | 'live' | 'dead'
  /** Of the holder; a pid means something only within one boot of one machine. */
  readonly pid?: number
  /** RFC 3339. */
  readonly startedAt?: string
  /** What the holder is, such as `cli` or `embedded`. */
  readonly transport?: string
}

/** Looks at the lock of a session directory and changes nothing. */
export function lookAtLock(sessionDir: string): LockLook {
  const state = readLockState(sessionDir)
  if (state === 'free') return { state }
  const { pid, started_at: startedAt, transport } = lockRecord(sessionDir)
  return {
    state,
    ...(typeof pid === 'number' ? { pid } : {}),
    ...(typeof startedAt === 'string' ? { startedAt } : {}),
    ...(typeof transport === 'string' ? { transport } : {}),
  }
}

/** Whether this very process, or a thread of it, has the session open. */
export function isHeldHere(sessionDir: string): boolean {
  const { pid, boot_id: bootId, pid_namespace: pidNamespace } = lockRecord(sessionDir)
  const self = systemProcesses.self()
  return pid === self.pid && bootId === self.bootId && pidNamespace === self.pidNamespace
}

function lockRecord(sessionDir: string): Readonly<Record<string, unknown>> {
  try {
    const record: unknown = JSON.parse(readPlainFile(join(sessionDir, LOCK_FILE))?.toString('utf8') ?? '{}')
    return typeof record === 'object' && record !== null ? (record as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
