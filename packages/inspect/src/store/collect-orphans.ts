import { isNexusError } from '@nexus/errors'
import { layoutInStore } from '@nexus/durability/tools'
import { forEachBounded, type ObjectStore } from '@nexus/objectstore'
import { Scratch } from '../read/scratch.ts'
import { refuseLiveOwner } from './stored-owner.ts'
import { surveyStore, type OrphanObject, type SurveyedSession } from './survey-store.ts'

const CONCURRENCY = 16

/** What a collection removes, or would. */
export interface Collection {
  readonly removed: readonly OrphanObject[]
  readonly bytes: number
  /** Sessions that were left alone, and why. */
  readonly kept: readonly { readonly id: string; readonly why: string }[]
}

/**
 * Removes objects of sessions that no commit names, and that are older than `olderThanMs`. Left alone are sessions whose
 * owner looks live, since a commit on its way has stored what it is going to name; those with a damaged commit; and blobs and
 * journal segments of a session that has a commit, with which a resume may mend what an interrupted commit left.
 *
 * @param options.dryRun only look. Default false
 * @throws the store's own error
 */
export async function collectOrphans(
  store: ObjectStore,
  options: { olderThanMs: number; dryRun?: boolean; signal?: AbortSignal; nowMs?: number },
): Promise<Collection> {
  const { olderThanMs, dryRun = false, signal, nowMs = Date.now() } = options
  const removed: OrphanObject[] = []
  const kept: { id: string; why: string }[] = []
  const scratch = new Scratch()
  try {
    for (const session of (await surveyStore(store, signal)).sessions) {
      const due = session.orphans.filter(
        ({ mayMend, modifiedMs }) =>
          !(mayMend && session.generation !== undefined) && nowMs - (modifiedMs ?? nowMs) >= olderThanMs,
      )
      if (due.length === 0) continue
      const why = await whyKept(store, session, scratch.dir, signal)
      if (why !== undefined) {
        kept.push({ id: session.id, why })
        continue
      }
      if (!dryRun) {
        await forEachBounded(
          due,
          CONCURRENCY,
          async ({ key }, _at, laneSignal) => await store.delete(key, { signal: laneSignal }),
          signal,
        )
      }
      removed.push(...due)
    }
    if (!dryRun) await store.flush(signal === undefined ? {} : { signal })
  } finally {
    await scratch.remove()
  }
  return { removed, bytes: removed.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0), kept }
}

/** Asked right before anything is deleted: the survey may have taken long. */
async function whyKept(
  store: ObjectStore,
  { id, generation, problems }: SurveyedSession,
  scratchDir: string,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  if (problems.length > 0) return 'its commit is damaged'
  try {
    await refuseLiveOwner(store, id, scratchDir, signal)
  } catch (error) {
    if (isNexusError(error, 'LOCKED')) return 'its owner looks live'
    throw error
  }
  const head = await (await layoutInStore(store, id, scratchDir)).head(signal)
  return head?.generation === generation ? undefined : 'it was committed meanwhile'
}
