import { type CommitFacts, type CommitId, isSame } from './commit-facts.ts'
import type { AttemptStore } from './commit-store.ts'

/**
 * What became of an attempt.
 *
 * - `committed`: it is the commit of its number, durably.
 * - `earlier`: an attempt of a process before this one, from the same tree, landed late and has the number.
 * - `lost`: the number is another's. `winner` is undefined where that can't be read any more.
 * - `unknown`: it may have landed, or may land yet. Only the same bytes may be sent for this number.
 */
export type Outcome =
  | { is: 'committed' }
  | { is: 'earlier'; commit: CommitFacts }
  | { is: 'lost'; winner: CommitFacts | undefined; damage?: Error }
  | { is: 'unknown'; cause: Error | undefined }

/**
 * Sends one attempt and judges the answer.
 *
 * @param earlier attempts of earlier processes that this tree holds
 */
export async function sendAttempt<A extends CommitId>(
  store: AttemptStore<A>,
  attempt: A,
  earlier: readonly CommitId[],
): Promise<Outcome> {
  try {
    if (!(await store.create(attempt))) {
      const found = await store.read(attempt.generation)
      switch (found.is) {
        // A create that says "taken" and a read that finds nothing contradict each other: ask again.
        case 'missing':
          return { is: 'unknown', cause: undefined }
        // It may have been ours: then others have built on it and committed since. Nothing of it may be acknowledged.
        case 'tombstone':
          return { is: 'lost', winner: undefined }
        case 'corrupt':
          return { is: 'lost', winner: undefined, damage: found.error }
        case 'commit': {
          const { commit } = found
          if (earlier.some((each) => isSame(each, commit))) return { is: 'earlier', commit }
          // By digest: a cloned machine draws the same nonce, and its commit isn't ours.
          if (!isSame(attempt, commit)) return { is: 'lost', winner: commit }
        }
      }
    }
    await store.flush()
    return { is: 'committed' }
  } catch (cause) {
    return { is: 'unknown', cause: cause as Error }
  }
}
