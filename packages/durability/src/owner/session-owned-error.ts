import { NexusError } from '@nexus/errors'
import type { LiveOwner } from './live-owner.ts'

/**
 * Somebody seems to have the session open, and the caller doesn't want to take it away. Code `LOCKED`; nothing was touched.
 */
export class SessionOwnedError extends NexusError {
  readonly sessionId: string
  readonly owner: LiveOwner

  /** @param wayOut what to do when the owner is gone, as the end of a sentence */
  constructor(sessionId: string, owner: LiveOwner, wayOut: string) {
    super(
      'LOCKED',
      `session ${sessionId} looks open${ownerText(owner)}: ${signText(owner)}. Stop it there, or ${wayOut}`,
      { op: 'durability.owner', key: sessionId, retryable: true },
    )
    this.name = 'SessionOwnedError'
    this.sessionId = sessionId
    this.owner = owner
  }
}

function ownerText({ host, pid, instanceId }: LiveOwner): string {
  const process = pid === undefined ? '' : ` (process ${pid})`
  if (host !== undefined) return ` on ${host}${process}`
  return instanceId === undefined ? '' : ` by instance ${instanceId}${process}`
}

function signText({ by, ageMs }: LiveOwner): string {
  if (by === 'lock') return 'its lock is held on this machine'
  const age = `${Math.max(0, Math.round(ageMs / 1000))} s ago`
  return by === 'heartbeat' ? `its last heartbeat was ${age}` : `its newest commit was made ${age}`
}
