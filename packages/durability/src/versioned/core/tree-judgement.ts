import { type CommitFacts, commitIn, isSame } from './commit-facts.ts'
import type { CommitStore } from './commit-store.ts'
import { findHead } from './head-search.ts'
import { holds, type SessionRecord } from './session-record.ts'

/**
 * What the store says of a local tree.
 *
 * - `new`: nothing was ever committed.
 * - `held`: the tree holds the head.
 * - `claimed`: it holds everything but claims, which hold nothing new. Others may have taken away packs that no commit names.
 * - `stale`: there are commits that it lacks, or that it can't be shown to hold. Also where there is no tree.
 * - `removed`, `moved`: the head says that the session was removed, or goes on in another layout.
 * - `forgotten`: the store lacks a commit that it acknowledged to this tree.
 */
export type Judgement =
  | { is: 'new' }
  | { is: 'held' | 'claimed' | 'stale' | 'removed' | 'moved'; head: CommitFacts }
  | { is: 'forgotten'; generation: number }

/**
 * Finds the head and judges a tree by its record; by nothing else, since whatever else is known of a tree isn't rolled back
 * and copied with it.
 *
 * @param record undefined where there is no tree, or it has no record
 * @throws as {@link findHead} does
 */
export async function judgeTree(store: CommitStore, record: SessionRecord | undefined): Promise<Judgement> {
  const head = await findHead(store, record?.base?.generation)
  if (head.is === 'forgotten') return head
  if (head.is === 'none') return { is: 'new' }
  const { commit } = head
  if (commit.kind === 'removed') return { is: 'removed', head: commit }
  if (commit.kind === 'migrate') return { is: 'moved', head: commit }
  if (record === undefined) return { is: 'stale', head: commit }
  if (holds(record, commit)) return { is: 'held', head: commit }
  return { is: (await holdsBelowClaims(store, record, commit)) ? 'claimed' : 'stale', head: commit }
}

/** Walks down from the head by parent digest, as long as there are claims. */
async function holdsBelowClaims(store: CommitStore, record: SessionRecord, head: CommitFacts): Promise<boolean> {
  const lowest = Math.min(...[record.base, ...record.attempts].map((each) => each?.generation ?? Infinity))
  let at = head
  while (!holds(record, at)) {
    const { kind, parent } = at
    if (kind !== 'claim' || parent === undefined || parent.generation < lowest) return false
    const below = commitIn(await store.read(parent.generation))
    if (below === undefined || !isSame(below, parent)) return false
    at = below
  }
  return true
}
