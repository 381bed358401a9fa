import type { CommitId, Found } from './commit-facts.ts'

/**
 * The store as the decisions see it. Every method rejects when the store gives no answer: then nothing is known.
 *
 * Assumed of it: creating only what is absent is linearizable, and so is a read after it. Listings may lag.
 */
export interface CommitStore {
  /** The generations that one folder of commits shows, in any order; those created last may be missing. */
  list(folder: number): Promise<readonly number[]>
  /** What a number holds. */
  read(generation: number): Promise<Found>
  /** A generation that existed once; undefined where no hint was left, or it can't be read. */
  hint(): Promise<number | undefined>
}

/** A store that commits are added to. `A` is a commit with its bytes. */
export interface AttemptStore<A extends CommitId> extends CommitStore {
  /**
   * Creates the object of an attempt if its number is free. The same attempt is always the same bytes.
   *
   * @returns false when the number is taken
   */
  create(attempt: A): Promise<boolean>
  /** Makes what was created durable. */
  flush(): Promise<void>
}
