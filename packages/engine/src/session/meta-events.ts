import type { EventSubscribing } from '../bus/event-bus.ts'
import type { NexusEvent } from '../bus/event.ts'
import type { SessionMeta } from './meta.ts'
import type { SessionWorkspace } from './workspace.ts'

/** The types of events that the totals count. */
export const COUNTED_TYPES: ReadonlySet<string> = new Set(['llm.response', 'agent.turn.end'])

/**
 * The metadata with one more event counted: tokens and cost of an `llm.response`, an `agent.turn.end` as a turn. Usage that
 * isn't a number of at least 0 counts nothing.
 */
export function withCounted(meta: SessionMeta, type: string, payload: unknown, seq: number | undefined): SessionMeta {
  const totals = type === 'agent.turn.end' ? { turnCount: meta.turnCount + 1 } : withUsage(meta, payload)
  const countedSeq = Math.max(meta.countedSeq ?? 0, seq ?? 0)
  return { ...meta, ...totals, ...(countedSeq === 0 ? {} : { countedSeq }) }
}

/**
 * Keeps `metadata/session.json` up to date: tokens and cost with every `llm.response`, the turn count with every
 * `agent.turn.end`.
 *
 * @returns ends it
 * @see docs/formats/session-tree.md
 */
export function subscribeMeta(bus: EventSubscribing, workspace: SessionWorkspace): () => void {
  // Read and saved in one go: of two events at once, none overwrites what the other counted.
  const count = (event: NexusEvent): Promise<void> =>
    workspace.saveMeta(withCounted(workspace.meta(), event.type, event.payload, event.causation.seq), { via: event })
  const unsubscribe = [...COUNTED_TYPES].map((type) => bus.subscribe(type, count))
  return () => unsubscribe.forEach((each) => each())
}

interface Response {
  usage?: { prompt_tokens?: unknown; completion_tokens?: unknown; total_tokens?: unknown }
  cost_usd?: unknown
}

/** What an `llm.response` adds to the totals. */
export function usageOf(payload: unknown): Record<(typeof USAGE)[number], number> {
  const { usage, cost_usd: cost } = (payload ?? {}) as Response
  const prompt = amount(usage?.prompt_tokens)
  const completion = amount(usage?.completion_tokens)
  return {
    tokensUsed: usage?.total_tokens === undefined ? prompt + completion : amount(usage.total_tokens),
    promptTokensUsed: prompt,
    completionTokensUsed: completion,
    costUsd: amount(cost),
  }
}

const USAGE = ['tokensUsed', 'promptTokensUsed', 'completionTokensUsed', 'costUsd'] as const

function withUsage(meta: SessionMeta, payload: unknown): Partial<SessionMeta> {
  const added = usageOf(payload)
  return Object.fromEntries(USAGE.map((field) => [field, meta[field] + added[field]]))
}

function amount(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0
}
