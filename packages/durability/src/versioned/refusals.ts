import { isNexusError, NexusError } from '@nexus/errors'
import { DECIDED } from '../layout/is-outage.ts'
import type { Layout } from '../layout/layout.ts'
import type { CommitFacts } from './core/commit-facts.ts'
import type { GoneObjectError } from './store/range-reader.ts'

// What the versioned layout says instead of going on.

export function forgotten(sessionId: string, generation: number): NexusError {
  return new NexusError(
    'PRECONDITION',
    `the store acknowledged generation ${generation} of session ${sessionId} and has it no more: look at bucket, prefix and ` +
      'credentials, and at rules that expire objects; or set core.object_store.accept_empty to begin anew there',
    { op: DECIDED, key: sessionId },
  )
}

export function removed(sessionId: string, { completedAtMs }: CommitFacts): NexusError {
  const message =
    `session ${sessionId} was removed at ${new Date(completedAtMs).toISOString()}; to begin a new one under this id, ` +
    'boot it with beginAgain'
  return new NexusError('NOT_FOUND', message, { op: DECIDED, key: sessionId })
}

export function moved(sessionId: string, { completedAtMs }: CommitFacts): NexusError {
  return new NexusError(
    'PRECONDITION',
    `session ${sessionId} went back to the mirror layout at ${new Date(completedAtMs).toISOString()}: boot it with ` +
      'core.object_store.layout mirror',
    { op: DECIDED, key: sessionId },
  )
}

/** What the head of a session says to a run that can't commit after it; undefined for the commit of another host. */
export function gone(sessionId: string, head: CommitFacts): NexusError | undefined {
  if (head.kind === 'removed') return removed(sessionId, head)
  return head.kind === 'migrate' ? moved(sessionId, head) : undefined
}

export function contended(sessionId: string): NexusError {
  const message = `session ${sessionId}: other hosts keep on committing to it; boot it on one of them`
  return new NexusError('UNAVAILABLE', message, { op: DECIDED, key: sessionId })
}

/** Refuses to begin a chain where the session lies in the other layout. */
export async function refuseMirror(sessionId: string, mirror: Layout, signal?: AbortSignal): Promise<void> {
  if ((await mirror.head(signal)) === undefined) return
  throw new NexusError(
    'PRECONDITION',
    `session ${sessionId} lies in the store in the mirror layout: boot it with core.object_store.layout mirror or auto, ` +
      `or move it with nexus store migrate ${sessionId} --to versioned`,
    { op: DECIDED, key: sessionId },
  )
}

/** What a commit fails with whose outcome isn't known. */
export function unresolved(sessionId: string, cause: Error | undefined): Error {
  if (cause !== undefined && isNexusError(cause)) return cause
  return new NexusError(
    'UNAVAILABLE',
    `session ${sessionId}: the store did not say whether the commit landed; it is sent again`,
    { op: 'durability.snapshot', key: sessionId, cause },
  )
}

export function damaged(error: GoneObjectError): NexusError {
  const key = error.key === undefined ? {} : { key: error.key }
  return new NexusError('CORRUPT', error.message, { op: 'hydrate', ...key, cause: error })
}
