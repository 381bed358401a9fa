import { isNexusError } from '@nexus/errors'
import { forEachBounded, type ObjectStore } from '@nexus/objectstore'
import type { CommitKind } from '../core/commit-facts.ts'
import type { TreeTotals } from '../format/header.ts'
import type { SessionObjects } from '../store/session-objects.ts'
import { type HistoryOptions, lowestReadable, newestGeneration, withSource } from './history-source.ts'

/** One commit as history tells it. */
export interface HistoryEntry {
  generation: number
  /** Undefined for a commit that can't be read, as what else its header says. */
  kind?: CommitKind | undefined
  /** ISO 8601, UTC. */
  completedAt?: string | undefined
  turnId?: string | undefined
  instanceId?: string | undefined
  host?: string | undefined
  totals?: TreeTotals | undefined
  /** Paths that could not be stored. */
  unstored: readonly string[]
  /** What is wrong with it. */
  problem?: string | undefined
}

const AT_ONCE = 64

/**
 * The commits of a versioned session that are kept, newest first. What the policy lets go is left out, also while it can still
 * be read.
 *
 * @param options `limit`: so many at most
 * @throws NexusError `NOT_FOUND` for a session without commits; the store's error
 * @see docs/guides/time-travel.md
 */
export async function sessionHistory(
  store: ObjectStore,
  sessionId: string,
  { limit = Infinity, ...options }: HistoryOptions & { limit?: number | undefined } = {},
): Promise<HistoryEntry[]> {
  return await withSource(store, sessionId, options, async (source) => {
    const { objects, loading } = source
    const head = await newestGeneration(source)
    const lowest = await lowestReadable(source, head)
    const entries: HistoryEntry[] = []
    for (let next = head; next >= lowest && entries.length < limit;) {
      const count = Math.min(AT_ONCE, next - lowest + 1, limit - entries.length)
      const generations = Array.from({ length: count }, (_, at) => next - at)
      const found = new Map<number, HistoryEntry>()
      await forEachBounded(
        generations,
        loading.concurrency,
        async (generation, _index, each) => {
          const entry = await entryOf(objects, generation, each)
          if (entry !== undefined) found.set(generation, entry)
        },
        loading.signal,
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
  })
}

async function entryOf(
  objects: SessionObjects,
  generation: number,
  signal: AbortSignal,
): Promise<HistoryEntry | undefined> {
  try {
    const read = await objects.readHead(generation, signal)
    if (read.is !== 'commit') return undefined
    const { header } = read.head
    return {
      generation,
      kind: header.kind,
      completedAt: header.completed_at,
      turnId: header.turn_id,
      instanceId: header.owner.instance_id,
      host: header.owner.host,
      totals: header.totals,
      unstored: header.unstored,
    }
  } catch (error) {
    if (!isNexusError(error, 'CORRUPT') && !isNexusError(error, 'UNSUPPORTED')) throw error
    return { generation, unstored: [], problem: error.message }
  }
}
