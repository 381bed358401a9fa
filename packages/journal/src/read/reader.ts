import { fromSystemError, isNexusError, NexusError } from '@nexus/errors'
import { Slices } from '@nexus/host'
import { DamageLog, SegmentDamagedError, type DamageKind, type JournalDamage } from '../format/damage.ts'
import { EarlierIds } from './earlier-ids.ts'
import { HEADER_FILE } from '../format/format.ts'
import { readHeader, type JournalHeader } from '../format/header.ts'
import { nodeFs, type JournalFs } from '../files/journal-fs.ts'
import { activePath, listSealed, type SealedFile, sweptSeq } from '../format/journal-files.ts'
import type { JournalEnvelope } from '../format/record.ts'
import { SegmentEvents } from './segment-events.ts'
import { describeSealed, readLastSeqOfSegment } from '../segment/segment-seq.ts'
import { Sequence } from './sequence.ts'

/** What {@link JournalReader.open} takes. */
export interface JournalReaderOptions {
  /** Start at this seq; sealed segments below it are not read. Default 1. */
  fromSeq?: number
  /**
   * What a damaged sealed segment does once everything before the damage was given: `throw` (default) ends the iteration
   * with {@link SegmentDamagedError}, `continue` reports it and goes on with the next segment.
   */
  onSegmentDamage?: 'throw' | 'continue'
  signal?: AbortSignal | undefined
  fs?: JournalFs
}

/**
 * Reads a journal as a stream, in the order of seqs, whatever its size. Works on a directory that is being written to:
 * it then ends somewhere between what was there at the start and at the end.
 *
 * @see docs/concepts/journal.md
 */
export class JournalReader implements AsyncIterable<JournalEnvelope> {
  /** `header.json`. */
  readonly header: JournalHeader
  readonly #dir: string
  readonly #fs: JournalFs
  readonly #options: JournalReaderOptions
  #damage = new DamageLog()
  #sequence: Sequence | undefined
  #sweptSeq = 0

  private constructor(dir: string, header: JournalHeader, options: JournalReaderOptions) {
    this.#dir = dir
    this.header = header
    this.#options = options
    this.#fs = options.fs ?? nodeFs
  }

  /**
   * @throws `NOT_FOUND` when there is no journal, `UNSUPPORTED` for another schema version (both are named), `CORRUPT`
   * for an unreadable header
   */
  // Not async inside, but a promise: opening may come to need one.
  static open(dir: string, options: JournalReaderOptions = {}): Promise<JournalReader> {
    return new Promise((resolve) => {
      const header = readHeader(dir, options.fs)
      if (!header) {
        const path = `${dir}/${HEADER_FILE}`
        throw new NexusError('NOT_FOUND', `there is no journal in ${dir}`, { op: 'journal.read', key: path })
      }
      resolve(new JournalReader(dir, header, options))
    })
  }

  /** Faults that the latest iteration met, in order; the first thousand. */
  get damage(): readonly JournalDamage[] {
    return this.#damage.entries
  }

  /** How many faults of each kind the latest iteration met. */
  get damageCounts(): Readonly<Partial<Record<DamageKind, number>>> {
    return this.#damage.counts
  }

  /** Events up to this seq were swept from this copy before the latest iteration; 0 for none. A store has them. */
  get sweptSeq(): number {
    return this.#sweptSeq
  }

  /** Events that the latest iteration met twice, with the same id, and gave once. */
  get duplicates(): number {
    return this.#sequence?.duplicates ?? 0
  }

  /** One event after another. */
  [Symbol.asyncIterator](): AsyncIterator<JournalEnvelope, undefined> {
    return new EventIterator(this.batches())
  }

  /** Events in groups as they come from the file: less overhead per event. */
  async *batches(): AsyncGenerator<JournalEnvelope[], undefined> {
    const damage = (this.#damage = new DamageLog())
    const paths: string[] = []
    const earlier = new EarlierIds(this.#fs, paths)
    this.#sweptSeq = sweptSeq(this.#dir, this.#fs)
    const sequence = (this.#sequence = new Sequence(damage, earlier, this.#options.fromSeq ?? 1, this.#sweptSeq))
    const time = new Slices({ signal: this.#options.signal })
    try {
      for await (const { path, segment } of this.#segments(damage)) {
        paths.push(path)
        yield* this.#eventsOf(segment, path, sequence, damage, time)
      }
    } finally {
      earlier.close()
    }
  }

  async *#eventsOf(
    segment: SegmentEvents,
    path: string,
    sequence: Sequence,
    damage: DamageLog,
    time: Slices,
  ): AsyncGenerator<JournalEnvelope[], undefined> {
    try {
      for (;;) {
        const rest = time.rest()
        if (rest) await rest
        const batch = segment.next()
        if (!batch) return
        const events = sequence.accept(segment.file, batch)
        if (events.length > 0) yield events
      }
    } catch (error) {
      this.#onDamage(error, segment.file, path, damage)
    } finally {
      segment.close()
    }
  }

  /** Undefined for an active segment that does not exist (yet). */
  #open(path: string, damage: DamageLog): SegmentEvents | undefined {
    try {
      return new SegmentEvents(this.#fs, path, damage)
    } catch (error) {
      const wrapped = fromSystemError(error, 'journal.read', path)
      if (wrapped.code === 'NOT_FOUND') return undefined
      throw wrapped
    }
  }

  #onDamage(error: unknown, file: string, path: string, damage: DamageLog): void {
    if (!(error instanceof SegmentDamagedError)) {
      throw isNexusError(error) ? error : fromSystemError(error, 'journal.read', path)
    }
    damage.add({ kind: 'segment', file, offset: error.offset, detail: error.message })
    if (this.#options.onSegmentDamage !== 'continue') throw error
  }

  /**
   * Sealed segments, then the active one, each opened. A rotation that happens meanwhile moves lines from the active segment to a
   * new sealed one, so the directory is looked at again until nothing new is there; what is met twice is given once.
   */
  async *#segments(damage: DamageLog): AsyncGenerator<{ path: string; segment: SegmentEvents }, undefined> {
    let highest = 0
    for (;;) {
      for (const { number, path } of this.#sealedAbove(highest)) {
        highest = number
        if (await this.#below(path)) continue
        const segment = this.#open(path, damage)
        if (segment !== undefined) yield { path, segment }
      }
      const path = activePath(this.#dir, this.#fs)
      const segment = this.#open(path, damage)
      // Only now is it sure that what was opened follows the last sealed segment: a rotation since then left one between them.
      if (this.#sealedAbove(highest).length > 0) {
        segment?.close()
        continue
      }
      if (segment !== undefined) yield { path, segment }
      if (this.#sealedAbove(highest).length === 0) return
    }
  }

  #sealedAbove(highest: number): SealedFile[] {
    return listSealed(this.#dir, this.#fs).filter(({ number }) => number > highest)
  }

  async #below(path: string): Promise<boolean> {
    const { fromSeq } = this.#options
    if (fromSeq === undefined || fromSeq <= 1) return false
    const fd = this.#fs.openSync(path, 'r')
    try {
      return (await describeSealed(this.#fs, fd, path, () => undefined)).lastSeq < fromSeq
    } finally {
      this.#fs.closeSync(fd)
    }
  }

  /** The highest seq in the journal; 0 when it is empty. Reads the end of the active and of the newest sealed segment. */
  lastSeq(): Promise<number> {
    return highestSeqOf(this.#dir, this.#fs)
  }

  /** Seq of the last `agent.turn.end`; 0 for none. Reads backwards, a segment at a time. */
  async lastTurnBoundary(): Promise<number> {
    const paths = [...listSealed(this.#dir, this.#fs).map(({ path }) => path), activePath(this.#dir, this.#fs)]
    const time = new Slices({ signal: this.#options.signal })
    for (const path of paths.toReversed()) {
      const seq = await this.#turnEndIn(path, time)
      if (seq > 0) return seq
    }
    return 0
  }

  async #turnEndIn(path: string, time: Slices): Promise<number> {
    const segment = this.#open(path, new DamageLog())
    let found = 0
    try {
      for (let batch = segment?.next(); batch; batch = segment?.next()) {
        for (const event of batch.events) if (event.type === 'agent.turn.end') found = Math.max(found, event.seq)
        const rest = time.rest()
        if (rest) await rest
      }
    } catch (error) {
      if (!(error instanceof SegmentDamagedError)) throw fromSystemError(error, 'journal.read', path)
    } finally {
      segment?.close()
    }
    return found
  }
}

/** The highest seq in the journal of `dir`; 0 when it is empty. */
export async function highestSeqOf(dir: string, fs: JournalFs = nodeFs): Promise<number> {
  const newest = listSealed(dir, fs).at(-1)
  return Math.max(await lastSeqOrZero(activePath(dir, fs), fs), newest ? await lastSeqOrZero(newest.path, fs) : 0)
}

async function lastSeqOrZero(path: string, fs: JournalFs): Promise<number> {
  try {
    return await readLastSeqOfSegment(path, fs)
  } catch (error) {
    if (isNexusError(error, 'NOT_FOUND') || isNexusError(error, 'CORRUPT')) return 0
    throw error
  }
}

/** Takes batches apart without an async function call per event. */
class EventIterator implements AsyncIterator<JournalEnvelope, undefined> {
  readonly #batches: AsyncGenerator<JournalEnvelope[], undefined>
  #batch: JournalEnvelope[] = []
  #index = 0

  constructor(batches: AsyncGenerator<JournalEnvelope[], undefined>) {
    this.#batches = batches
  }

  next(): Promise<IteratorResult<JournalEnvelope, undefined>> {
    const value = this.#batch[this.#index++]
    return value === undefined ? this.#refill() : Promise.resolve({ value, done: false })
  }

  async #refill(): Promise<IteratorResult<JournalEnvelope, undefined>> {
    const next = await this.#batches.next()
    if (next.done) return { value: undefined, done: true }
    this.#batch = next.value
    this.#index = 0
    return this.next()
  }

  async return(): Promise<IteratorResult<JournalEnvelope, undefined>> {
    await this.#batches.return(undefined)
    return { value: undefined, done: true }
  }
}
