import { TIMING_PATH } from '@nexus/durability/names'
import type { EventSubscribing } from '../bus/event-bus.ts'
import type { Clock } from '@nexus/host'
import type { SessionWorkspace } from './workspace.ts'

/** A line of `metadata/timing.jsonl`. The start is missing for a turn that began in an earlier run. */
export interface TurnTiming {
  turn_id: string
  /** RFC 3339. */
  started_at?: string
  /** RFC 3339. */
  ended_at: string
  duration_ms?: number
}

// Turns that never end are forgotten at this number, oldest first.
const MAX_OPEN_TURNS = 1024

/**
 * Writes one line to `metadata/timing.jsonl` for every completed turn.
 *
 * @returns ends it
 * @see docs/formats/session-tree.md
 */
export function subscribeTiming(
  bus: EventSubscribing,
  workspace: SessionWorkspace,
  clock: Pick<Clock, 'now'>,
): () => void {
  const open = new Map<string, { at: string; atMs: number }>()
  const unsubscribe = [
    bus.subscribe('agent.turn.start', ({ payload, timestamp }) => {
      open.delete(payload.turn_id)
      open.set(payload.turn_id, { at: timestamp, atMs: clock.now() })
      const [oldest] = open.keys()
      if (open.size > MAX_OPEN_TURNS && oldest !== undefined) open.delete(oldest)
    }),
    bus.subscribe('agent.turn.end', (event) => {
      const { turn_id } = event.payload
      const start = open.get(turn_id)
      open.delete(turn_id)
      const timing: TurnTiming = {
        turn_id,
        ...(start === undefined ? {} : { started_at: start.at }),
        ended_at: event.timestamp,
        ...(start === undefined ? {} : { duration_ms: Math.max(0, clock.now() - start.atMs) }),
      }
      return workspace.appendFile(TIMING_PATH, `${JSON.stringify(timing)}\n`, { via: event })
    }),
  ]
  return () => unsubscribe.forEach((each) => each())
}
