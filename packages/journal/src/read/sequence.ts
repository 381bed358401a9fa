import type { DamageLog } from '../format/damage.ts'
import { missing } from '../segment/tail.ts'
import type { EarlierIds } from './earlier-ids.ts'
import type { JournalEnvelope } from '../format/record.ts'
import type { EventBatch } from './segment-events.ts'

/** Passes events on in ascending order of seq, once each, and reports everything else. */
export class Sequence {
  lastSeq: number
  /** Events that stood in the journal twice, which a crash during a rotation leaves behind. */
  duplicates = 0
  readonly #damage: DamageLog
  readonly #earlier: EarlierIds
  /** Below this, nothing is asked for and nothing is missed. */
  readonly #fromSeq: number
  /** Up to here nothing is missed, either. */
  readonly #sweptSeq: number

  constructor(damage: DamageLog, earlier: EarlierIds, fromSeq: number, sweptSeq: number) {
    this.#damage = damage
    this.#earlier = earlier
    this.#fromSeq = fromSeq
    this.#sweptSeq = sweptSeq
    this.lastSeq = fromSeq - 1
  }

  /** The events of a batch that come next. */
  accept(file: string, batch: EventBatch): JournalEnvelope[] {
    const { events } = batch
    if (this.#isRun(events)) {
      this.lastSeq += events.length
      return events
    }
    return events.filter((event, index) => this.#acceptOne(file, batch, event, index))
  }

  #isRun(events: readonly JournalEnvelope[]): boolean {
    let expected = this.lastSeq
    for (const event of events) if (event.seq !== ++expected) return false
    return true
  }

  #acceptOne(file: string, batch: EventBatch, event: JournalEnvelope, index: number): boolean {
    const { seq } = event
    if (seq < this.#fromSeq) return false
    const expected = this.lastSeq + 1
    if (seq < expected) {
      this.#repeat(file, batch, event, index)
      return false
    }
    const firstMissed = Math.max(expected, this.#sweptSeq + 1)
    if (seq > firstMissed) {
      const detail = missing(firstMissed, seq - 1)
      this.#damage.add({ kind: 'gap', file, offset: batch.offsetOf(index), seq: firstMissed, detail })
    }
    this.lastSeq = seq
    return true
  }

  #repeat(file: string, batch: EventBatch, event: JournalEnvelope, index: number): void {
    const { seq } = event
    const earlier = this.#earlier.find(seq)
    if (earlier === event.event_id) {
      this.duplicates++
      return
    }
    const offset = batch.offsetOf(index)
    if (earlier === undefined) {
      const detail = `seq ${seq} comes after seq ${this.lastSeq}`
      this.#damage.add({ kind: 'out-of-order', file, offset, seq, detail })
    } else {
      const detail = `seq ${seq} belongs to event ${earlier} already; this one is ${event.event_id}`
      this.#damage.add({ kind: 'conflict', file, offset, seq, detail })
    }
  }
}
