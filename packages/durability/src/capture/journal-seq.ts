import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { isNexusError, systemCode } from '@nexus/errors'
import { ACTIVE_SEGMENT, readLastSeqOfSegment, SEALED_SEGMENT_PATTERN } from '@nexus/journal'

/**
 * The highest seq in the journal of a session whose writer is closed: of the active segment, else of the newest sealed one
 * that can be read. 0 for a journal without events, or without a directory.
 */
export async function readClosedJournalSeq(journalDir: string): Promise<number> {
  for (const name of segmentsNewestFirst(journalDir)) {
    try {
      const seq = await readLastSeqOfSegment(join(journalDir, name))
      if (seq > 0) return seq
    } catch (error) {
      // A damaged segment is stored as it is; the one before it is the best that can be said.
      if (!isNexusError(error)) throw error
    }
  }
  return 0
}

function segmentsNewestFirst(journalDir: string): string[] {
  let names: string[]
  try {
    names = readdirSync(journalDir)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return []
    throw error
  }
  const sealed = names.filter((name) => numberOf(name) > 0).toSorted((a, b) => numberOf(b) - numberOf(a))
  return names.includes(ACTIVE_SEGMENT) ? [ACTIVE_SEGMENT, ...sealed] : sealed
}

function numberOf(name: string): number {
  return Number(SEALED_SEGMENT_PATTERN.exec(name)?.[1] ?? 0)
}
