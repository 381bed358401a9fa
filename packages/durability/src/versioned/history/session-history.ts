import { forEachBounded } from '@nexus/objectstore'
import type { CommitKind } from '../core/commit-facts.ts'
import type { TreeTotals } from '../format/header.ts'
import { type HistoryOptions, type HistorySource, newestGeneration, settled } from './history-source.ts'

/** One commit as history tells it. */
export interface HistoryEntry {
  generation: number
  kind: CommitKind
  /** ISO 8601, UTC. */
  completedAt: string
  turnId?: string | undefined
  instanceId: string
  host?: string | undefined
  totals: TreeTotals
  unstored: readonly string[]
}

const AT_ONCE = 64

/**
 * The commits of a session that can still be read, newest first, as far back as the first that was reclaimed.
 *
 * @param options `limit`: so many at most
 * @throws NexusError `NOT_FOUND` for a session without commits
 */
export async function sessionHistory(
  source: HistorySource,
  { limit = Infinity, ...options }: HistoryOptions & { limit?: number } = {},
): Promise<HistoryEntry[]> {
  const { signal, concurrency } = settled(options)
  const entries: HistoryEntry[] = []
  for (let next = await newestGeneration(source); next > 0 && entries.length < limit;) {
    const generations = Array.from({ length: Math.min(AT_ONCE, next, limit - entries.length) }, (_, at) => next - at)
    const found = new Map<number, HistoryEntry>()
    await forEachBounded(
      generations,
      concurrency,
      async (generation, _index, each) => {
        const read = await source.objects.readHead(generation, each)
        if (read.is !== 'commit') return
        const { header } = read.head
        found.set(generation, {
          generation,
          kind: header.kind,
          completedAt: header.completed_at,
          turnId: header.turn_id,
          instanceId: header.owner.instance_id,
          host: header.owner.host,
          totals: header.totals,
          unstored: header.unstored,
        })
      },
      signal,
    )
    for (const generation of generations) {
      const entry = found.get(generation)
      // What lies below a removal is another life of the session.
      if (entry === undefined || (entry.kind === 'removed' && entries.length > 0)) return entries
      entries.push(entry)
    }
    next -= generations.length
  }
  return entries
}
