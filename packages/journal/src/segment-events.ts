import type { DamageKind, DamageLog } from './damage.ts'
import { ACTIVE_SEGMENT } from './format.ts'
import type { JournalFs } from './journal-fs.ts'
import { LineReader, type BrokenLine, type LineBatch } from './line-reader.ts'
import { decode, decodeLine, type JournalEnvelope } from './record.ts'
import { PlainSource, ZstdSource } from './zstd-source.ts'

/** Events of one batch, in file order, and where they stand. */
export interface EventBatch {
  events: JournalEnvelope[]
  /** Byte position of `events[i]` in the segment. Costs a pass over the batch; for reports only. */
  offsetOf(index: number): number
}

/**
 * The events of one segment file, batch by batch. Lines that are none are reported and skipped. Damage of a sealed
 * segment is thrown as `CORRUPT`, once everything before it was given.
 */
export class SegmentEvents {
  readonly file: string
  readonly #fs: JournalFs
  readonly #fd: number
  readonly #damage: DamageLog
  readonly #lines: LineReader
  #leftover: JournalEnvelope | undefined
  #leftoverOffset = 0

  constructor(fs: JournalFs, path: string, damage: DamageLog) {
    this.#fs = fs
    this.file = path.slice(path.lastIndexOf('/') + 1)
    this.#damage = damage
    this.#fd = fs.openSync(path, 'r')
    const sealed = this.file !== ACTIVE_SEGMENT
    const source = sealed ? new ZstdSource(fs, this.#fd, path) : new PlainSource(fs, this.#fd)
    this.#lines = new LineReader(source, (broken) => this.#onBroken(broken))
  }

  /** The next batch; undefined at the end. May be empty. */
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
    let skipped: number[] | undefined
    for (let i = 0; i < batch.lines.length; i++) {
      const event = decode(batch.lines[i] as string, batch.markers)
      if (event) events.push(event)
      else {
        ;(skipped ??= []).push(i)
        this.#report('malformed', lineOffset(batch, i), 'the line is not an event')
      }
    }
    return { events, offsetOf: (index) => lineOffset(batch, lineIndex(index, skipped)) }
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

/** Index of the line that holds event `index`, given the lines that hold none. */
function lineIndex(index: number, skipped: readonly number[] | undefined): number {
  let line = index
  for (const at of skipped ?? []) if (at <= line) line++
  return line
}

function lineOffset(batch: LineBatch, index: number): number {
  let offset = batch.offset
  for (let i = 0; i < index; i++) offset += Buffer.byteLength(batch.lines[i] ?? '') + 1
  return offset
}
