import { NexusError } from '@nexus/errors'
import { noFailpoint } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { removeSession as endChain, type RemovalWorld } from '../core/removal.ts'
import { commitIn, type CommitId } from '../core/commit-facts.ts'
import { findHead } from '../core/head-search.ts'
import { sweepBelow } from '../core/reclaim.ts'
import { waiting } from '../store/session-objects.ts'
import type { PreparedCommit } from '../store/write/prepare-commit.ts'
import { baseOn, type ChangeOptions, prepareEmpty, reclaimStoreOf, refuseLive, untilAnswered } from './chain-author.ts'
import { type HistorySource, withSource } from '../history/history-source.ts'

/** Failpoints of a removal, in the order it passes them, besides those of taking objects away. */
export const REMOVE_CHAIN_FAILPOINTS: readonly string[] = ['remove-chain:removed', 'remove-chain:swept']

/** What a removal left: the number that says when the session was removed. */
export interface RemovedSession {
  generation: number
  /** Objects that were overwritten or deleted. */
  removed: number
}

/**
 * Removes a versioned session from a store: a commit says so, and everything before it is taken away. Its number stays, so that
 * no host that stood still can commit to the session again. Doing it again takes away what arrived since.
 *
 * @throws SessionOwnedError (`LOCKED`) when the owner looks live; NexusError `NOT_FOUND` when the store has nothing of it; the
 *   store's error
 */
export async function removeSession(
  store: ObjectStore,
  sessionId: string,
  options: ChangeOptions = {},
): Promise<RemovedSession> {
  return await withSource(store, sessionId, options, async (source) => {
    await refuseLive(source, options)
    const head = await findHead(source.commits)
    if (head.is === 'none' && (await reclaimStoreOf(source).packs()).length === 0) {
      const message = `the store has no commit of session ${sessionId} in the versioned layout`
      throw new NexusError('NOT_FOUND', message, { op: 'history.remove', key: sessionId })
    }
    return await removeOpened(source, options)
  })
}

/** Ends the chain of a session and takes away what lies below. */
export async function removeOpened(source: HistorySource, options: ChangeOptions): Promise<RemovedSession> {
  const { failpoint = noFailpoint } = options
  const removed = await untilAnswered(source, () => endChain(removalWorld(source, options)))
  await failpoint('remove-chain:removed')
  return { generation: removed.generation, removed: await sweepRemoved(source, removed, options) }
}

/** Takes away what lies below a removal, also what a host that stood still uploaded since. */
export async function sweepRemoved(
  source: HistorySource,
  removed: CommitId,
  { failpoint = noFailpoint }: ChangeOptions,
): Promise<number> {
  const count = await sweepBelow(reclaimStoreOf(source, failpoint), removed, new Set())
  await source.objects.place.store.flush(waiting(source.loading.signal))
  await failpoint('remove-chain:swept')
  return count
}

/** What {@link endChain} works with. */
export function removalWorld(source: HistorySource, options: ChangeOptions): RemovalWorld<PreparedCommit> {
  return {
    store: source.commits,
    prepareRemoved: async (parent, generation) => {
      const facts = parent === undefined ? undefined : commitIn(await source.commits.read(parent.generation))
      return await prepareEmpty(source, 'removed', baseOn(facts, generation), options)
    },
  }
}
