import { isAscii } from 'node:buffer'
import type { NexusError } from '@nexus/errors'
import { MAX_LINE_BYTES } from '../format/format.ts'
import type { ByteSource } from './byte-source.ts'

/** Complete lines in the order of the file, without their newlines. */
export interface LineBatch {
  /** Position of the first line, in bytes of the (expanded) segment. */
  offset: number
  lines: string[]
  /** Whether the text can hold what `revivePayload` must undo. */
  markers: boolean
}

/** A stretch that is no line: too long to be one, or the end of the file without a newline. */
export interface BrokenLine {
  kind: 'oversized' | 'unterminated'
  offset: number
  sizeBytes: number
  /** What the end of the file holds. Absent for an oversized line. */
  text?: string
}

const CHUNK_BYTES = 256 * 1024
/** `{"seq":1,"type":"a"}` and its newline: no event has a shorter line. */
export const MIN_LINE_BYTES = 21
/** How many lines too short for an event are passed over. They cost more to read than to make: 4 GiB of them fit 200 KiB of zstd. */
const MAX_SHORT_LINES = 100_000
const NEWLINE = 10

/**
 * Cuts a byte source into batches of lines, holding one chunk or one line, whichever is longer. A line beyond
 * {@link MAX_LINE_BYTES} is skipped and reported. Damage of the source surfaces from {@link next} after every line before
 * it was given.
 */
export class LineReader {
  readonly #source: ByteSource
  readonly #onBroken: (broken: BrokenLine) => void
  #buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  #have = 0
  /** Position of `#buffer[0]` in the segment. */
  #offset: number
  /** Bytes of an oversized line that were thrown away so far. */
  #discarding: { offset: number; sizeBytes: number } | undefined
  #shortLines = 0
  #failure: NexusError | undefined
  #done = false

  constructor(source: ByteSource, onBroken: (broken: BrokenLine) => void, offset = 0) {
    this.#source = source
    this.#onBroken = onBroken
    this.#offset = offset
  }

  /**
   * The next batch; undefined at the end. Empty inside an oversized line, so that the caller can let others work. Throws
   * what the source threw, once everything before was given.
   */
  next(): LineBatch | undefined {
    while (!this.#done) {
      const searched = this.#have
      const n = this.#pull()
      if (n === 0) {
        this.#finish()
        break
      }
      this.#have += n
      const newline = this.#buffer.subarray(0, this.#have).lastIndexOf(NEWLINE)
      if (newline < searched) {
        this.#makeRoom()
        if (this.#discarding) return { offset: this.#offset, lines: [], markers: false }
        continue
      }
      const batch = this.#take(newline)
      if (batch && !this.#holdsNoEvents(batch.lines.length, newline)) return batch
    }
    if (this.#failure) throw this.#failure
    return undefined
  }

  /** Ends the reading, where the source allows that, once far too many lines were too short. */
  #holdsNoEvents(lines: number, sizeBytes: number): boolean {
    if (!this.#source.refuse) return false
    this.#shortLines += Math.max(0, lines - Math.ceil((sizeBytes + 1) / MIN_LINE_BYTES))
    if (this.#shortLines <= MAX_SHORT_LINES) return false
    this.#failure = this.#source.refuse(`more than ${MAX_SHORT_LINES} of its lines are too short to be events`)
    return (this.#done = true)
  }

  #pull(): number {
    try {
      return this.#source.read(this.#buffer, this.#have, this.#buffer.length - this.#have)
    } catch (error) {
      this.#failure = error as NexusError
      return 0
    }
  }

  #take(newline: number): LineBatch | undefined {
    let from = 0
    if (this.#discarding) {
      from = this.#buffer.indexOf(NEWLINE) + 1
      this.#reportOversized(this.#discarding.sizeBytes + from)
    }
    const batch = from > newline ? undefined : this.#decode(from, newline)
    this.#buffer.copyWithin(0, newline + 1, this.#have)
    this.#have -= newline + 1
    this.#offset += newline + 1
    // A long line made the buffer grow; what follows fits the usual size again.
    if (this.#buffer.length > CHUNK_BYTES && this.#have < CHUNK_BYTES) {
      this.#buffer = Buffer.from(this.#buffer.subarray(0, CHUNK_BYTES))
    }
    return batch
  }

  #decode(from: number, newline: number): LineBatch {
    const bytes = this.#buffer.subarray(from, newline)
    // Nearly all text is ASCII, which is five times faster to take over than to decode.
    const text = bytes.toString(isAscii(bytes) ? 'latin1' : 'utf8')
    return { offset: this.#offset + from, lines: text.split('\n'), markers: text.includes('__journal_') }
  }

  #makeRoom(): void {
    if (this.#have < this.#buffer.length) return
    if (this.#have < MAX_LINE_BYTES && !this.#discarding) {
      const grown = Buffer.allocUnsafe(Math.min(this.#buffer.length * 2, MAX_LINE_BYTES))
      this.#buffer.copy(grown, 0, 0, this.#have)
      this.#buffer = grown
      return
    }
    this.#discarding ??= { offset: this.#offset, sizeBytes: 0 }
    this.#discarding.sizeBytes += this.#have
    this.#offset += this.#have
    this.#have = 0
    if (this.#buffer.length > CHUNK_BYTES) this.#buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  }

  #reportOversized(sizeBytes: number): void {
    if (!this.#discarding) return
    this.#onBroken({ kind: 'oversized', offset: this.#discarding.offset, sizeBytes })
    this.#discarding = undefined
  }

  #finish(): void {
    this.#done = true
    if (this.#discarding) {
      this.#reportOversized(this.#discarding.sizeBytes + this.#have)
    } else if (this.#have > 0 && !this.#failure) {
      const text = this.#buffer.toString('utf8', 0, this.#have)
      this.#onBroken({ kind: 'unterminated', offset: this.#offset, sizeBytes: this.#have, text })
    }
  }
}
