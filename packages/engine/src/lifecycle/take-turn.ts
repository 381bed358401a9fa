import { randomUUID } from 'node:crypto'
import { NexusError } from '@nexus/errors'
import type { SessionBus } from '../bus/event-bus.ts'
import type { PayloadOf } from '../bus/event-map.ts'

/** What a turn gave. */
export interface TurnOutcome<T> {
  turnId: string
  value: T
  /** Of the commit that holds the turn; absent when the session has no store. */
  generation?: number
}

/** Where turns are taken. */
export interface TurnPlace {
  sessionId: string
  bus: SessionBus
  hasStore: boolean
}

/**
 * Runs work as one turn: begins it, ends it, and waits until its commit is durable. A turn whose work throws ends as failed, is
 * committed as that, and the error is thrown on.
 *
 * @throws what the work throws; `UNAVAILABLE` when the turn is done and could not be committed: a later commit holds it, too
 */
export async function takeTurn<T>(
  { sessionId, bus, hasStore }: TurnPlace,
  work: (turnId: string) => T | Promise<T>,
): Promise<TurnOutcome<T>> {
  const turn = { turn_id: randomUUID(), session_id: sessionId }
  await bus.emit('agent.turn.start', turn)
  let value: T
  try {
    value = await work(turn.turn_id)
  } catch (error) {
    await bus.emit('agent.turn.end', { ...turn, error: error instanceof Error ? error.message : String(error) })
    throw error
  }
  let taken: PayloadOf<'session.snapshot.result'> | undefined
  const stopListening = bus.subscribe('session.snapshot.result', ({ payload }) => void (taken = payload))
  await bus.emit('agent.turn.end', turn).finally(stopListening)
  if (!hasStore) return { turnId: turn.turn_id, value }
  if (taken?.ok !== true) {
    const why = taken?.error ?? 'it was not tried'
    throw new NexusError('UNAVAILABLE', `the turn is done, and its commit is not: ${why}`, {
      op: 'session.turn',
      key: sessionId,
      retryable: true,
    })
  }
  return { turnId: turn.turn_id, value, generation: taken.generation }
}
