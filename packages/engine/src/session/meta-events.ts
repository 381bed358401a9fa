import type { EventSubscribing } from '../bus/event-bus.ts'
import type { NexusEvent } from '../bus/event.ts'
import type { SessionMeta } from './meta.ts'
import type { SessionWorkspace } from './workspace.ts'

/**
 * Keeps `metadata/session.json` up to date: tokens and cost with every `llm.response`, the turn count with every
 * `agent.turn.end`. Usage that isn't a number of at least 0 counts nothing.
 *
 * @returns ends it
 * @see docs/formats/session-tree.md
 */
export function subscribeMeta(bus: EventSubscribing, workspace: SessionWorkspace): () => void {
  const update = (event: NexusEvent, change: (meta: SessionMeta) => Partial<SessionMeta>): Promise<void> => {
    // Read and saved in one go: of two events at once, none overwrites what the other counted.
    const meta = workspace.meta()
    return workspace.saveMeta({ ...meta, ...change(meta) }, { via: event })
  }
  const unsubscribe = [
    bus.subscribe('llm.response', (event) => update(event, (meta) => withUsage(meta, event.payload))),
    bus.subscribe('agent.turn.end', (event) => update(event, (meta) => ({ turnCount: meta.turnCount + 1 }))),
  ]
  return () => unsubscribe.forEach((each) => each())
}

interface Response {
  usage?: { prompt_tokens?: unknown; completion_tokens?: unknown; total_tokens?: unknown }
  cost_usd?: unknown
}

function withUsage(meta: SessionMeta, { usage, cost_usd }: Response): Partial<SessionMeta> {
  const prompt = amount(usage?.prompt_tokens)
  const completion = amount(usage?.completion_tokens)
  return {
    tokensUsed:
      meta.tokensUsed + (usage?.total_tokens === undefined ? prompt + completion : amount(usage.total_tokens)),
    promptTokensUsed: meta.promptTokensUsed + prompt,
    completionTokensUsed: meta.completionTokensUsed + completion,
    costUsd: meta.costUsd + amount(cost_usd),
  }
}

function amount(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0
}
