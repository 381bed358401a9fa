import { SegmentDamagedError, type DamageKind, type DamageLog } from '../format/damage.ts'
import type { JournalFs } from '../files/journal-fs.ts'
import { LineReader, type BrokenLine, type LineBatch } from '../segment/line-reader.ts'
import { decode, decodeLine, type JournalEnvelope } from '../format/record.ts'
import { isSealed, segmentSource } from '../segment/segment-source.ts'

/** Events of one batch, in file order, and where they stand. */
export interface EventBatch {
  events: JournalEnvelope[]
  /** Byte position of `events[i]` in the segment. Costs a pass over the batch; for reports only. */
  offsetOf(index: number): number
}

/** A sealed segment with so many lines that are no events is not read further: it could cost minutes to no use. */
const MAX_MALFORMED = 100_000

/**
 * The events of one segment file, batch by batch. Lines that are none are reported and skipped. Damage of a sealed
 * segment is thrown as `CORRUPT`, once everything before it was given.
 */
export class SegmentEvents {
  readonly file: string
  readonly #path: string
  readonly #fs: JournalFs
  readonly #fd: number
  readonly #damage: DamageLog
  readonly #lines: LineReader
  #leftover: JournalEnvelope | undefined
  #leftoverOffset = 0
  #malformed = 0

  constructor(fs: JournalFs, path: string, damage: DamageLog) {
    this.#fs = fs
    this.#path = path
    this.file = path.slice(path.lastIndexOf('/') + 1)
    this.#damage = damage
    this.#fd = fs.openSync(path, 'r')
    this.#lines = new LineReader(segmentSource(fs, this.#fd, path), (broken) => this.#onBroken(broken))
  }

  /** The next batch; undefined at the end. May be empty. Throws `CORRUPT` where a sealed segment is damaged. */
  next(): EventBatch | undefined {
    const lines = this.#lines.next()
    if (lines) return this.#decode(lines)
    const last = this.#leftover
    if (!last) return undefined
    this.#leftover = undefined
    return { events: [last], offsetOf: () => this.#leftoverOffset }
  }

  close(): void {
    this.#fs.closeSync(this.#fd)
  }

  #decode(batch: LineBatch): EventBatch {
    const events: JournalEnvelope[] = []
    const offsets = new LineOffsets(batch)
    // Index of the line of each event; only needed once a line holds none.
    let lineOf: number[] | undefined
    for (let i = 0; i < batch.lines.length; i++) {
      const event = decode(batch.lines[i] as string, batch.markers)
      if (event) {
        events.push(event)
        lineOf?.push(i)
      } else {
        lineOf ??= events.map((_, index) => index)
        this.#reportMalformed(offsets.at(i))
      }
    }
    return { events, offsetOf: (index) => offsets.at(lineOf?.[index] ?? index) }
  }

  #reportMalformed(offset: number): void {
    this.#report('malformed', offset, 'the line is not an event')
    if (++this.#malformed < MAX_MALFORMED || !isSealed(this.#path)) return
    throw new SegmentDamagedError(this.#path, offset, `${MAX_MALFORMED} of its lines are no events; it is no journal`)
  }

  #onBroken({ kind, offset, sizeBytes, text }: BrokenLine): void {
    if (kind === 'oversized') return this.#report('oversized', offset, `the line has ${sizeBytes} bytes`)
    const event = text === undefined ? undefined : decodeLine(text)
    if (event) {
      this.#leftover = event
      this.#leftoverOffset = offset
    } else this.#report('torn', offset, `the last ${sizeBytes} bytes are no complete line`)
  }

  #report(kind: DamageKind, offset: number, detail: string): void {
    this.#damage.add({ kind, file: this.file, offset, detail })
  }
}

/** Byte positions of the lines of a batch. Asked for in ascending order, they cost one pass in all. */
class LineOffsets {
  readonly #batch: LineBatch
  #index = 0
  #offset: number

  constructor(batch: LineBatch) {
    this.#batch = batch
    this.#offset = batch.offset
  }

  at(index: number): number {
    if (index < this.#index) {
      this.#index = 0
      this.#offset = this.#batch.offset
    }
    for (; this.#index < index; this.#index++)
      this.#offset += Buffer.byteLength(this.#batch.lines[this.#index] ?? '') + 1
    return this.#offset
  }
}
