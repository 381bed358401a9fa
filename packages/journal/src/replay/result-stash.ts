import type { JournalEnvelope } from '../format/record.ts'

/** Events that carry an answer of the world. */
const RESULT_TYPES: ReadonlySet<string> = new Set(['llm.response', 'tool.result', 'hitl.responded'])

/** How many answers are read ahead in search of one. Turns overlap by a few events, never by thousands. */
const LOOKAHEAD = 1024

/** Journaled answers, taken in the order they were given, however large the journal is. */
export class ResultStash {
  readonly #batches: AsyncIterator<JournalEnvelope[]>
  readonly #upToSeq: number
  #ahead: JournalEnvelope[] = []
  #done = false
  #reading: Promise<unknown> = Promise.resolve()

  /** @param upToSeq answers above belong to a turn that never ended, and are not given */
  constructor(batches: AsyncIterator<JournalEnvelope[]>, upToSeq: number) {
    this.#batches = batches
    this.#upToSeq = upToSeq
  }

  /** The first answer that has not been taken and matches; undefined when there is none within reach. */
  take(matches: (event: JournalEnvelope) => boolean): Promise<JournalEnvelope | undefined> {
    // One search at a time, or two would take the same batch apart.
    const search = this.#reading.then(() => this.#search(matches))
    this.#reading = search.catch(() => undefined)
    return search
  }

  async #search(matches: (event: JournalEnvelope) => boolean): Promise<JournalEnvelope | undefined> {
    for (let index = 0; ; index++) {
      while (index >= this.#ahead.length) {
        if (this.#done || this.#ahead.length >= LOOKAHEAD) return undefined
        await this.#refill()
      }
      const event = this.#ahead[index]
      if (!event || !matches(event)) continue
      this.#ahead.splice(index, 1)
      return event
    }
  }

  async #refill(): Promise<void> {
    const next = await this.#batches.next()
    if (next.done) {
      this.#done = true
      return
    }
    for (const event of next.value) {
      if (event.seq > this.#upToSeq) this.#done = true
      else if (RESULT_TYPES.has(event.type)) this.#ahead.push(event)
    }
  }

  async close(): Promise<void> {
    this.#done = true
    await this.#batches.return?.()
  }
}
