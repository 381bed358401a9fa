import type { CommitId } from './commit-facts.ts'
import type { AttemptStore } from './commit-store.ts'
import { sendAttempt, type Outcome } from './commit-outcome.ts'
import { FIRST_GENERATION } from './versioned-keys.ts'

/** Where a writer stands. */
export interface LineState<A extends CommitId> {
  /** The commit that the next one follows. Undefined before the first of all. */
  parent: CommitId | undefined
  /** An attempt whose outcome isn't known: nothing else is sent before it is. */
  unresolved?: A | undefined
  /** Attempts of earlier processes on this tree; until the first commit of this process, one of them may land late. */
  earlier: readonly CommitId[]
}

/** How a commit ended for its writer. */
export type LineOutcome<A extends CommitId> =
  | { is: 'committed'; attempt: A }
  | Extract<Outcome, { is: 'lost' | 'unknown' }>

/**
 * The commits of one writer, one after the other.
 *
 * It ends for good with `lost`: what comes after must not be sent.
 */
export class CommitLine<A extends CommitId> {
  readonly #store: AttemptStore<A>
  readonly #note: (attempt: A) => Promise<void>
  #parent: CommitId | undefined
  #unresolved: A | undefined
  #earlier: readonly CommitId[]

  /**
   * @param note makes an attempt known to the tree's record, durably: without that, the next process would take its late
   *   arrival for another host's commit
   */
  constructor(
    store: AttemptStore<A>,
    note: (attempt: A) => Promise<void>,
    { parent, unresolved, earlier }: LineState<A>,
  ) {
    this.#store = store
    this.#note = note
    this.#parent = parent
    this.#unresolved = unresolved
    this.#earlier = earlier
  }

  get state(): LineState<A> {
    return { parent: this.#parent, unresolved: this.#unresolved, earlier: this.#earlier }
  }

  /** Sends the attempt that is still unresolved, if there is one. `settled`: nothing stands in the way of the next. */
  async settle(): Promise<LineOutcome<A> | { is: 'settled' }> {
    const attempt = this.#unresolved
    if (attempt === undefined) return { is: 'settled' }
    const outcome = await sendAttempt(this.#store, attempt, this.#earlier)
    if (outcome.is === 'unknown' || outcome.is === 'lost') return outcome
    this.#unresolved = undefined
    if (outcome.is === 'earlier') {
      this.#parent = outcome.commit
      return { is: 'settled' }
    }
    this.#parent = attempt
    // Whatever an earlier process sent has a number that is taken by now.
    this.#earlier = []
    return { is: 'committed', attempt }
  }

  /**
   * Commits what `prepare` makes. What an attempt before it left open is resolved first; what the caller has to store
   * meanwhile is in the new attempt only.
   *
   * @param prepare makes the attempt that follows `parent`; called again when an attempt of an earlier process landed first
   */
  async commit(prepare: (parent: CommitId | undefined, generation: number) => Promise<A>): Promise<LineOutcome<A>> {
    const before = await this.settle()
    if (before.is === 'unknown' || before.is === 'lost') return before
    for (;;) {
      const generation = this.#parent === undefined ? FIRST_GENERATION : this.#parent.generation + 1
      const attempt = await prepare(this.#parent, generation)
      await this.#note(attempt)
      this.#unresolved = attempt
      const outcome = await this.settle()
      if (outcome.is !== 'settled') return outcome
    }
  }
}
