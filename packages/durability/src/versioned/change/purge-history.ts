import { randomBytes } from 'node:crypto'
import { NexusError } from '@nexus/errors'
import { noFailpoint } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { commitIn } from '../core/commit-facts.ts'
import { sweepBelow } from '../core/reclaim.ts'
import { waiting } from '../store/session-objects.ts'
import { prepareBuilt } from '../store/write/prepare-commit.ts'
import { authorContext, baseOn, type ChangeOptions, commitBehind, reclaimStoreOf, refuseLive } from './chain-author.ts'
import { copyTree } from './copy-tree.ts'
import { openGeneration, orReclaimed, withSource } from '../history/history-source.ts'

/** Failpoints of a purge, in the order it passes them, besides those of taking objects away. */
export const PURGE_FAILPOINTS: readonly string[] = ['purge:copied', 'purge:committed', 'purge:done']

/** What a purge left of a session's history: one generation. */
export interface PurgedHistory {
  generation: number
  files: number
  bytes: number
  /** Objects that were overwritten or deleted. */
  removed: number
}

/**
 * Leaves nothing of a session but its newest tree: commits it once more, of newly stored payload, and takes away everything
 * before. The host that has it open has lost it then. A purge that was killed is finished by doing it again, or by gc.
 *
 * What versions of objects, soft delete and object locks of the bucket still hold, and trees that were set aside on hosts, is
 * not reached.
 *
 * @throws SessionOwnedError (`LOCKED`) when the owner looks live; NexusError `NOT_FOUND`, `CORRUPT` when the newest generation
 *   is damaged, `PRECONDITION` when another host committed meanwhile
 */
export async function purgeHistory(
  store: ObjectStore,
  sessionId: string,
  options: ChangeOptions & { ttlMs?: number | undefined } = {},
): Promise<PurgedHistory> {
  const { failpoint = noFailpoint } = options
  return await withSource(store, sessionId, options, async (source) => {
    await refuseLive(source, options)
    const { loading } = source
    const opened = await openGeneration(source)
    const { state } = opened
    const parent = commitIn(await source.commits.read(opened.generation))
    if (parent?.digest !== opened.commit.headerSha256) throw lost(sessionId)
    const about = {
      kind: 'repack' as const,
      nonce: randomBytes(8).toString('hex'),
      turnId: opened.commit.header.turn_id,
      mixedFrom: state.mixedFrom,
      lastSeq: state.journalLastSeq,
      unstored: state.unstored,
    }
    const { paths, dirs, links } = state
    const made = await commitBehind(source, parent, async (generation) => {
      const prepared = await orReclaimed(source, opened.generation, () =>
        prepareBuilt(
          authorContext(source, options),
          { ...baseOn(parent, generation), nextN: state.nextN },
          { about, tree: { paths, dirs, links }, fill: (draft) => copyTree(draft, opened, loading) },
          loading.slices,
          loading.signal,
        ),
      )
      await failpoint('purge:copied')
      return prepared
    })
    if (made === 'lost') throw lost(sessionId)
    await failpoint('purge:committed')
    const removed = await sweepBelow(reclaimStoreOf(source, failpoint), made, made.containers.packs)
    await store.flush(waiting(loading.signal))
    await failpoint('purge:done')
    const { files, bytes } = made.header.totals
    return { generation: made.generation, files, bytes, removed }
  })
}

function lost(sessionId: string): NexusError {
  const message = `session ${sessionId} was committed by another host meanwhile: nothing was taken away; try again`
  return new NexusError('PRECONDITION', message, { op: 'history.purge', key: sessionId })
}
