import { NexusError } from '@nexus/errors'

/**
 * What is wrong with a place in a journal.
 *
 * - `malformed` a line that is no event; skipped
 * - `oversized` a line beyond the maximum; skipped
 * - `torn` the last line has no newline and is no event; skipped
 * - `conflict` a second event with the seq of an earlier one and another id; skipped
 * - `out-of-order` a seq below the one before it that was never seen; skipped
 * - `gap` the seqs between the event before and this one are missing
 * - `segment` a sealed segment can't be read from there on
 */
export type DamageKind = 'malformed' | 'oversized' | 'torn' | 'conflict' | 'out-of-order' | 'gap' | 'segment'

/** One fault, with its position. */
export interface JournalDamage {
  kind: DamageKind
  /** Name of the segment file. */
  file: string
  /** Byte in the segment; for a sealed one in its expanded bytes, except `segment`, which counts in the file itself. */
  offset: number
  /** The seq concerned, where one could be read. For a gap the first missing one. */
  seq?: number
  detail: string
}

/** How many faults are kept one by one; further ones are only counted. */
export const MAX_DAMAGE_ENTRIES = 1000

/** Faults found so far: the first thousand, and how many there were of each kind. */
export class DamageLog {
  readonly entries: JournalDamage[] = []
  readonly counts: Partial<Record<DamageKind, number>> = {}
  total = 0

  add(damage: JournalDamage): void {
    this.total++
    this.counts[damage.kind] = (this.counts[damage.kind] ?? 0) + 1
    if (this.entries.length < MAX_DAMAGE_ENTRIES) this.entries.push(damage)
  }
}

/** A sealed segment can't be read beyond `offset`. Code `CORRUPT`. */
export class SegmentDamagedError extends NexusError {
  /** Path of the segment file. */
  readonly path: string
  /** Byte in the compressed file. */
  readonly offset: number

  constructor(path: string, offset: number, reason: string, cause?: unknown) {
    super('CORRUPT', `${path} is damaged at byte ${offset}: ${reason}`, { op: 'journal.read', key: path, cause })
    this.name = 'SegmentDamagedError'
    this.path = path
    this.offset = offset
  }
}
