import { NexusError } from '@nexus/errors'
import { type CommitFacts, isSame } from './commit-facts.ts'
import type { CommitStore } from './commit-store.ts'
import { findHead } from './head-search.ts'

/** What a reader of a commit got: its content, or word that an object which the commit names is gone. */
export type Fetched<T> = { is: 'content'; content: T } | { is: 'gone'; error: Error }

const MAX_STARTS = 5

/**
 * Reads the newest commit whole; starts over when it was reclaimed meanwhile.
 *
 * Everything that takes payload away commits something first, or takes only what lies far below the head. So where payload
 * is gone and the head is still the same, the store is damaged. Reading the commit itself again proves nothing: it can be
 * there while payload that only it needs is gone.
 *
 * @param known a generation that existed once
 * @returns undefined when nothing was ever committed
 * @throws `NOT_FOUND` when the session was removed, `CORRUPT` when the store is damaged, `UNAVAILABLE` when commits came
 *   faster than they could be read, five times
 */
export async function readNewest<T>(
  store: CommitStore,
  fetch: (commit: CommitFacts) => Promise<Fetched<T>>,
  known?: number,
): Promise<T | undefined> {
  let before: { commit: CommitFacts; error: Error } | undefined
  for (let starts = 0; starts <= MAX_STARTS; starts++) {
    const head = await findHead(store, before?.commit.generation ?? known)
    if (head.is === 'none') return undefined
    if (head.is === 'forgotten') throw missing(head.generation)
    const { commit } = head
    if (commit.kind === 'removed') throw removed(commit)
    if (isSame(before?.commit, commit)) throw before?.error
    const fetched = await fetch(commit)
    if (fetched.is === 'content') return fetched.content
    before = { commit, error: fetched.error }
  }
  throw new NexusError('UNAVAILABLE', 'the session was committed and reclaimed faster than it could be read', {
    op: 'durability.restore',
    cause: before?.error,
  })
}

function missing(generation: number): NexusError {
  return new NexusError(
    'CORRUPT',
    `commit ${generation} was there and is gone: something other than the engine deletes commits`,
    {
      op: 'durability.restore',
      key: String(generation),
    },
  )
}

function removed({ generation, completedAtMs }: CommitFacts): NexusError {
  const when = new Date(completedAtMs).toISOString()
  return new NexusError('NOT_FOUND', `the session was removed at ${when} (generation ${generation})`, {
    op: 'durability.restore',
    key: String(generation),
  })
}
