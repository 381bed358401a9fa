import { DamageLog } from '../format/damage.ts'
import type { JournalFs } from '../files/journal-fs.ts'
import type { JournalEnvelope } from '../format/record.ts'
import { SegmentEvents } from './segment-events.ts'

/** Going back is a full read each time; a file in which that is needed more often is damaged beyond sorting out. */
const MAX_RESTARTS = 64

/**
 * Answers which id an event had that was read before, without keeping ids: it reads the same files a second time, in step
 * with the repeated events, which come in ascending order after a crash.
 */
export class EarlierIds {
  readonly #fs: JournalFs
  readonly #paths: readonly string[]
  #nextPath = 0
  #segment: SegmentEvents | undefined
  #batch: readonly JournalEnvelope[] = []
  #index = 0
  #highest = 0
  #restarts = 0

  constructor(fs: JournalFs, paths: readonly string[]) {
    this.#fs = fs
    this.#paths = paths
  }

  /** The id that `seq` had first, or undefined when no earlier event had it, or it can't be found out. */
  find(seq: number): string | undefined {
    if (seq < this.#highest && !this.#restart()) return undefined
    for (let event = this.#peek(); event; event = this.#peek()) {
      if (event.seq === seq) return event.event_id
      if (event.seq > seq) return undefined
      this.#highest = event.seq
      this.#index++
    }
    return undefined
  }

  close(): void {
    this.#segment?.close()
    this.#segment = undefined
  }

  #restart(): boolean {
    if (++this.#restarts > MAX_RESTARTS) return false
    this.close()
    this.#nextPath = this.#index = this.#highest = 0
    this.#batch = []
    return true
  }

  #peek(): JournalEnvelope | undefined {
    while (this.#index >= this.#batch.length) {
      if (!this.#segment && !this.#open()) return undefined
      this.#batch = this.#read()
      this.#index = 0
    }
    return this.#batch[this.#index]
  }

  #open(): boolean {
    const path = this.#paths[this.#nextPath]
    if (path === undefined) return false
    this.#nextPath++
    this.#segment = new SegmentEvents(this.#fs, path, new DamageLog())
    return true
  }

  /** The next events of the open segment; closes it at its end or its damage. */
  #read(): readonly JournalEnvelope[] {
    try {
      const batch = this.#segment?.next()
      if (batch) return batch.events
    } catch {
      // The damage is reported by the reader itself.
    }
    this.close()
    return []
  }
}
