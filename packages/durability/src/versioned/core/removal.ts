import type { CommitId } from './commit-facts.ts'
import { CommitLine } from './commit-line.ts'
import type { AttemptStore } from './commit-store.ts'
import { findHead } from './head-search.ts'

/** What the removal of a session works with. */
export interface RemovalWorld<A extends CommitId> {
  store: AttemptStore<A>
  /** A commit of kind `removed`, which holds nothing. */
  prepareRemoved: (parent: CommitId | undefined, generation: number) => Promise<A>
}

/**
 * Ends a session's chain with a commit of kind `removed`: from then on nothing before it is reachable, and every writer that
 * knew an older head has lost its number. What lies below may be taken away afterwards, by anybody who meets it.
 *
 * @returns the `removed` commit, also one that was there
 * @throws the store's error, also where the outcome is unknown: to be called again
 */
export async function removeSession<A extends CommitId>({ store, prepareRemoved }: RemovalWorld<A>): Promise<CommitId> {
  for (;;) {
    const head = await findHead(store)
    const parent = head.is === 'commit' ? head.commit : undefined
    if (parent?.kind === 'removed') return parent
    const removed = await removeAfter({ store, prepareRemoved }, parent)
    if (removed !== undefined) return removed
  }
}

/**
 * The same for a prefix that holds packs and no commit; only if it is still so.
 *
 * @returns undefined when there is a commit by now
 */
export async function removeOrphans<A extends CommitId>(world: RemovalWorld<A>): Promise<CommitId | undefined> {
  const head = await findHead(world.store)
  return head.is === 'commit' ? undefined : await removeAfter(world, undefined)
}

async function removeAfter<A extends CommitId>(
  { store, prepareRemoved }: RemovalWorld<A>,
  parent: CommitId | undefined,
): Promise<CommitId | undefined> {
  const line = new CommitLine(store, async () => undefined, { parent, earlier: [] })
  const outcome = await line.commit(prepareRemoved)
  if (outcome.is === 'committed') return outcome.attempt
  if (outcome.is === 'lost') return undefined
  throw outcome.cause ?? new Error('the store contradicts itself')
}
