import type { DamageLog } from '../format/damage.ts'
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

  constructor(damage: DamageLog, earlier: EarlierIds, fromSeq: number) {
    this.#damage = damage
    this.#earlier = earlier
    this.#fromSeq = fromSeq
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
    if (seq > expected) {
      const missing = seq - 1 === expected ? `seq ${expected} is missing` : `seqs ${expected} to ${seq - 1} are missing`
      this.#damage.add({ kind: 'gap', file, offset: batch.offsetOf(index), seq: expected, detail: missing })
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
