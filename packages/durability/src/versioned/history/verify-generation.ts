import type { ObjectStore } from '@nexus/objectstore'
import { type HistoryOptions, orReclaimed, readableGeneration, withSource } from './history-source.ts'
import { loadIntact, type LostPart, withoutDamage } from './salvage.ts'

/** What a check of a generation found. */
export interface VerifiedGeneration {
  generation: number
  files: number
  bytes: number
  /** Files that can't be restored, by path. */
  damaged: readonly LostPart[]
}

/**
 * Reads all content of a generation, and changes nothing.
 *
 * @throws NexusError `NOT_FOUND`; `CORRUPT` when not even its index can be found
 */
export async function verifyGeneration(
  store: ObjectStore,
  sessionId: string,
  { generation: wanted, ...options }: HistoryOptions & { generation?: number | undefined } = {},
): Promise<VerifiedGeneration> {
  return await withSource(store, sessionId, options, async (source) => {
    const generation = await readableGeneration(source, wanted)
    return await orReclaimed(source, generation, async () => {
      const opened = await loadIntact(source, generation)
      const { files, bytes } = opened.loaded.header.totals
      const { lost } = await withoutDamage(source, opened)
      return { generation, files, bytes, damaged: lost }
    })
  })
}
