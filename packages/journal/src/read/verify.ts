import type { DamageKind, JournalDamage } from '../format/damage.ts'
import type { JournalFs } from '../files/journal-fs.ts'
import { JournalReader } from './reader.ts'

/** What a check of a whole journal found. */
export interface JournalVerification {
  /** No gap and no damage. Repeated events with the same id are harmless. */
  ok: boolean
  events: number
  /** 0 in an empty journal. */
  firstSeq: number
  lastSeq: number
  gaps: JournalDamage[]
  /** Events up to this seq were swept from this copy; 0 for none. A store has them. */
  sweptSeq: number
  /** Events that stand in the journal twice with the same id. */
  duplicates: number
  /** Everything that is no gap; at most the first thousand faults are listed in all. */
  damage: JournalDamage[]
  counts: Readonly<Partial<Record<DamageKind, number>>>
}

/**
 * Reads a journal through and reports everything that is wrong with it, going on behind a damaged segment.
 *
 * @throws `NOT_FOUND` when there is no journal, `UNSUPPORTED` or `CORRUPT` for its header, `LOCAL_IO`
 */
export async function verify(
  dir: string,
  options: { signal?: AbortSignal | undefined; fs?: JournalFs } = {},
): Promise<JournalVerification> {
  const reader = await JournalReader.open(dir, { ...options, onSegmentDamage: 'continue' })
  const found = { events: 0, firstSeq: 0, lastSeq: 0 }
  for await (const events of reader.batches()) {
    if (found.events === 0) found.firstSeq = events[0]?.seq ?? 0
    found.events += events.length
    found.lastSeq = events.at(-1)?.seq ?? found.lastSeq
  }
  return {
    ...found,
    ok: reader.damage.length === 0,
    gaps: reader.damage.filter(({ kind }) => kind === 'gap'),
    sweptSeq: reader.sweptSeq,
    duplicates: reader.duplicates,
    damage: reader.damage.filter(({ kind }) => kind !== 'gap'),
    counts: reader.damageCounts,
  }
}
