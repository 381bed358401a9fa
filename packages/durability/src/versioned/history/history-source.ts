import { NexusError } from '@nexus/errors'
import { Slices } from '@nexus/host'
import type { CommitStore } from '../core/commit-store.ts'
import { findHead } from '../core/head-search.ts'
import { SAFE_DISTANCE } from '../core/reclaim.ts'
import { type LoadedTree, loadTree, type LoadOptions } from '../store/read/load-tree.ts'
import { GoneObjectError } from '../store/range-reader.ts'
import type { SessionObjects, WholeCommit } from '../store/session-objects.ts'

/** The commits of one session, for reading. */
export interface HistorySource {
  objects: SessionObjects
  commits: CommitStore
}

/** How history is read. */
export interface HistoryOptions {
  signal?: AbortSignal | undefined
  /** Requests in flight, default 16. */
  concurrency?: number | undefined
  slices?: Slices | undefined
}

const CONCURRENCY = 16

/** The options with everything in them. */
export function settled({ signal, concurrency = CONCURRENCY, slices }: HistoryOptions): LoadOptions {
  return { signal, concurrency, slices: slices ?? new Slices({ signal }) }
}

/**
 * The newest generation of a session.
 *
 * @throws NexusError `NOT_FOUND` when there is none
 */
export async function newestGeneration({ objects, commits }: HistorySource): Promise<number> {
  const head = await findHead(commits)
  if (head.is === 'commit' && head.commit.kind !== 'removed') return head.commit.generation
  const { sessionId } = objects.place
  const why =
    head.is === 'commit' ? `was removed at ${new Date(head.commit.completedAtMs).toISOString()}` : 'has no commit'
  throw new NexusError('NOT_FOUND', `session ${sessionId} ${why}`, { op: 'history.read', key: sessionId })
}

/**
 * A commit of a session and the index of its tree.
 *
 * @throws NexusError `NOT_FOUND` when it is reclaimed or was never there; `CORRUPT`
 */
export async function openGeneration(
  source: HistorySource,
  generation: number,
  options: LoadOptions,
): Promise<LoadedTree & { commit: WholeCommit }> {
  const { objects } = source
  return await orReclaimed(source, generation, async () => {
    const commit = await objects.readWhole(generation, options.signal)
    if (commit === undefined) throw new GoneObjectError(objects.nameOf(generation))
    return { commit, ...(await loadTree(objects, commit, options)) }
  })
}

/**
 * Runs a reading of a generation. What is missing then was reclaimed where that may happen to a generation as old as this, and
 * is damage otherwise: rereading the commit itself would prove nothing.
 */
export async function orReclaimed<T>(source: HistorySource, generation: number, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof GoneObjectError)) throw error
    const head = await newestGeneration(source)
    const { sessionId } = source.objects.place
    const about = { op: 'history.read', key: error.key ?? sessionId, cause: error }
    if (generation > head) {
      const message = `session ${sessionId} has no generation ${generation}: its newest is ${head}`
      throw new NexusError('NOT_FOUND', message, about)
    }
    if (generation <= head - SAFE_DISTANCE) {
      throw new NexusError('NOT_FOUND', `generation ${generation} of session ${sessionId} was reclaimed`, about)
    }
    throw new NexusError('CORRUPT', `generation ${generation} of session ${sessionId} lacks ${error.key}`, about)
  }
}
