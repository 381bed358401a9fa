import { NexusError } from '@nexus/errors'
import type { ObjectStore } from '@nexus/objectstore'
import { folderKey, FIRST_GENERATION, folderOf, sessionRoot } from './core/versioned-keys.ts'

/**
 * Refuses a session that lies in the store as a chain of commits, for a boot in the mirror layout that found none there.
 * Numbers are never freed, so the first folder shows it for as long as the session lives.
 *
 * @throws NexusError `PRECONDITION` naming the setting; the store's error
 */
export async function refuseChain(store: ObjectStore, sessionId: string, signal?: AbortSignal): Promise<void> {
  if (!store.capabilities.putIfAbsent) return
  const folder = folderKey(sessionRoot(sessionId), folderOf(FIRST_GENERATION))
  const commits = await store.list(folder, signal === undefined ? {} : { signal })
  if (commits.length === 0) return
  throw new NexusError(
    'PRECONDITION',
    `session ${sessionId} lies in the store in the versioned layout: boot it with core.object_store.layout versioned, or move it ` +
      `with nexus store migrate ${sessionId} --to mirror`,
    { op: 'durability.resolve-tree', key: sessionId },
  )
}
