import type { JournalEnvelope } from '../format/record.ts'
import { fieldOf, type CompletedInput } from './turns.ts'

/** Events that carry an answer of the world. */
const RESULT_TYPES: ReadonlySet<string> = new Set(['llm.response', 'tool.result', 'hitl.responded'])

/** Journaled answers of one turn after another, in the order they were given, however large the journal is. */
export class ResultStash {
  readonly #batches: AsyncIterator<JournalEnvelope[]>
  /** Answers read so far that this turn or a later one may want. */
  #ahead: JournalEnvelope[] = []
  #turn: Omit<CompletedInput, 'input'> = { turnId: undefined, above: 0, upTo: 0, tailTo: 0 }
  #readSeq = 0
  #reading: Promise<unknown> = Promise.resolve()

  constructor(batches: AsyncIterator<JournalEnvelope[]>) {
    this.#batches = batches
  }

  /** The turn whose answers are given, as its events name it. */
  get turnId(): unknown {
    return this.#turn.turnId
  }

  /**
   * From here on gives the answers of this turn.
   *
   * @param floor no later turn begins below this seq either, so that what stands there is let go of
   */
  enter(turn: CompletedInput, floor: number): void {
    this.#turn = turn
    this.#ahead = this.#ahead.filter(({ seq }) => seq > floor)
  }

  /** From here on gives the answers to what was asked when the turn had ended: what was asked within it is not among them. */
  leave(): void {
    const { upTo, tailTo } = this.#turn
    this.#turn = { ...this.#turn, above: upTo + 1, upTo: tailTo }
  }

  /** The turn's first answer that has not been taken and matches; undefined when it has none. */
  take(matches: (event: JournalEnvelope) => boolean): Promise<JournalEnvelope | undefined> {
    // One search at a time, or two would take the same batch apart.
    const search = this.#reading.then(() => this.#search(matches))
    this.#reading = search.catch(() => undefined)
    return search
  }

  async #search(matches: (event: JournalEnvelope) => boolean): Promise<JournalEnvelope | undefined> {
    const { turnId, above, upTo } = this.#turn
    for (let index = 0; ; index++) {
      while (index >= this.#ahead.length && this.#readSeq < upTo) await this.#refill()
      const event = this.#ahead[index]
      if (!event || event.seq > upTo) return undefined
      // Turns may overlap; an answer that names another turn is not for this one.
      if (event.seq < above || (fieldOf(event, 'turn_id') ?? turnId) !== turnId || !matches(event)) continue
      this.#ahead.splice(index, 1)
      return event
    }
  }

  async #refill(): Promise<void> {
    const next = await this.#batches.next()
    this.#readSeq = next.done ? Infinity : (next.value.at(-1)?.seq ?? this.#readSeq)
    if (!next.done) this.#ahead.push(...next.value.filter(({ type }) => RESULT_TYPES.has(type)))
  }

  async close(): Promise<void> {
    this.#turn = { ...this.#turn, upTo: 0, tailTo: 0 }
    await this.#batches.return?.()
  }
}
