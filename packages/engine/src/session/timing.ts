import { TIMING_PATH } from '@nexus/durability/names'
import { usageOf } from './meta-events.ts'
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
  /** Tokens of the answers of models in it; absent when there were none. */
  tokens_used?: number
  cost_usd?: number
  /** Why it failed or was cancelled. */
  error?: string
}

// Turns that never end are forgotten at this number, oldest first.
const MAX_OPEN_TURNS = 1024

interface OpenTurn {
  at: string
  atMs: number
  usage: Pick<TurnTiming, 'tokens_used' | 'cost_usd'>
}

function addedUsage(usage: OpenTurn['usage'], payload: unknown): OpenTurn['usage'] {
  const { tokensUsed, costUsd } = usageOf(payload)
  return { tokens_used: (usage.tokens_used ?? 0) + tokensUsed, cost_usd: (usage.cost_usd ?? 0) + costUsd }
}

/** Adds the lines of turns that were ended, and whose process was killed before it wrote them. */
export async function completeTimings(
  workspace: Pick<SessionWorkspace, 'appendFile' | 'readFile'>,
  ended: readonly TurnTiming[],
): Promise<void> {
  if (ended.length === 0) return
  const text = await workspace.readFile(TIMING_PATH).then(String, () => '')
  for (const timing of ended) {
    // The end of a turn is dated to the millisecond, and turns of one id don't end twice in one.
    if (
      text.includes(`"turn_id":${JSON.stringify(timing.turn_id)}`) &&
      text.includes(`"ended_at":"${timing.ended_at}"`)
    )
      continue
    await workspace.appendFile(TIMING_PATH, `${JSON.stringify(timing)}\n`)
  }
}

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
  const open = new Map<string, OpenTurn>()
  const unsubscribe = [
    bus.subscribe('agent.turn.start', ({ payload, timestamp }) => {
      open.delete(payload.turn_id)
      open.set(payload.turn_id, { at: timestamp, atMs: clock.now(), usage: {} })
      const [oldest] = open.keys()
      if (open.size > MAX_OPEN_TURNS && oldest !== undefined) open.delete(oldest)
    }),
    bus.subscribe('llm.response', ({ payload }) => {
      const turn = [...open.values()].at(-1)
      if (turn !== undefined) turn.usage = addedUsage(turn.usage, payload)
    }),
    bus.subscribe('agent.turn.end', (event) => {
      const { turn_id, error } = event.payload
      const start = open.get(turn_id)
      open.delete(turn_id)
      const timing: TurnTiming = {
        turn_id,
        ...(start === undefined ? {} : { started_at: start.at }),
        ended_at: event.timestamp,
        ...(start === undefined ? {} : { duration_ms: Math.max(0, clock.now() - start.atMs) }),
        ...start?.usage,
        ...(error === undefined ? {} : { error }),
      }
      return workspace.appendFile(TIMING_PATH, `${JSON.stringify(timing)}\n`, { via: event })
    }),
  ]
  return () => unsubscribe.forEach((each) => each())
}
