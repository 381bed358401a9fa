import { ToolCache } from '@nexus/journal'
import type { Logger } from '@nexus/host'
import type { EventSubscribing } from '../bus/event-bus.ts'

/** Calls that nobody answers are forgotten at this number, oldest first. */
const MAX_OPEN_CALLS = 1024

/**
 * Keeps what tools answered in the journal's cache, by tool and arguments, for a replay. Errors are not kept: they say how
 * one call went, and nothing of what the tool gives. A cache that can't be written costs a replay nothing but the cache.
 *
 * @returns ends it
 * @see docs/concepts/journal.md
 */
export function subscribeToolResults(bus: EventSubscribing, journalDir: string, logger: Logger): () => void {
  const cache = new ToolCache(journalDir)
  const open = new Map<string, { name: string; arguments?: unknown }>()
  let hasWarned = false
  const unsubscribe = [
    bus.subscribe('tool.invoke', ({ payload: { id, ...call } }) => {
      open.set(id, call)
      const [oldest] = open.keys()
      if (open.size > MAX_OPEN_CALLS && oldest !== undefined) open.delete(oldest)
    }),
    bus.subscribe('tool.result', ({ payload }) => {
      const call = open.get(payload.id)
      open.delete(payload.id)
      if (call === undefined || payload.error !== undefined) return
      try {
        cache.put(call.name, call.arguments, payload)
      } catch (error) {
        if (hasWarned) return
        hasWarned = true
        logger.warn({ err: error, tool: call.name }, 'results of tools are not kept for a replay')
      }
    }),
  ]
  return () => unsubscribe.forEach((each) => each())
}
