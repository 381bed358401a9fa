import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import type { ObjectStore } from '@nexus/objectstore'
import { findHead } from './core/head-search.ts'
import { folderKey, FIRST_GENERATION, folderOf, sessionRoot } from './core/versioned-keys.ts'
import { SessionCommits } from './session-commits.ts'
import { SessionObjects } from './store/session-objects.ts'

/**
 * Whether a session lies in the store as a chain of commits. Numbers are never freed, so the first folder shows it for as long
 * as the session lives; a chain that ended in a move to the mirror layout is none any more.
 *
 * @throws the store's error
 */
export async function hasChain(store: ObjectStore, sessionId: string, signal?: AbortSignal): Promise<boolean> {
  if (!store.capabilities.putIfAbsent) return false
  const folder = folderKey(sessionRoot(sessionId), folderOf(FIRST_GENERATION))
  if ((await store.list(folder, signal === undefined ? {} : { signal })).length === 0) return false
  return !(await hasMoved(store, sessionId, signal))
}

async function hasMoved(store: ObjectStore, sessionId: string, signal?: AbortSignal): Promise<boolean> {
  const scratchDir = mkdtempSync(join(tmpdir(), 'nexus-chain-'))
  try {
    const commits = new SessionCommits(
      new SessionObjects({ store, sessionId, root: sessionRoot(sessionId), scratchDir }),
    )
    commits.signal = signal
    const head = await findHead(commits)
    return head.is === 'commit' && head.commit.kind === 'migrate'
  } catch (error) {
    // A chain that can't be understood is one all the same.
    if (isNexusError(error, 'CORRUPT') || isNexusError(error, 'UNSUPPORTED')) return false
    throw error
  } finally {
    rmSync(scratchDir, { recursive: true, force: true })
  }
}

/**
 * Refuses a session that lies in the store as a chain of commits, for a boot in the mirror layout.
 *
 * @param options `isNew`: nothing of it was found in the mirror layout. Otherwise a store that gives no answer refuses nothing: the
 *   tree that was resolved is used
 * @throws NexusError `PRECONDITION` naming the setting; for a new session the store's error
 */
export async function refuseChain(
  store: ObjectStore,
  sessionId: string,
  { isNew, signal }: { isNew: boolean; signal?: AbortSignal | undefined },
): Promise<void> {
  const isChain = await hasChain(store, sessionId, signal).catch((error: unknown) => {
    if (isNew) throw error
    return false
  })
  if (!isChain) return
  throw new NexusError(
    'PRECONDITION',
    `session ${sessionId} lies in the store in the versioned layout: boot it with core.object_store.layout versioned or auto, ` +
      `or move it with nexus store migrate ${sessionId} --to mirror`,
    { op: 'durability.resolve-tree', key: sessionId },
  )
}
