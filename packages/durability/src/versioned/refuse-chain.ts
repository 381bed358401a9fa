import { NexusError } from '@nexus/errors'
import type { ObjectStore } from '@nexus/objectstore'
import { folderKey, FIRST_GENERATION, folderOf, sessionRoot } from './core/versioned-keys.ts'

/**
 * Whether a session lies in the store as a chain of commits. Numbers are never freed, so the first folder shows it for as long
 * as the session lives.
 *
 * @throws the store's error
 */
export async function hasChain(store: ObjectStore, sessionId: string, signal?: AbortSignal): Promise<boolean> {
  if (!store.capabilities.putIfAbsent) return false
  const folder = folderKey(sessionRoot(sessionId), folderOf(FIRST_GENERATION))
  return (await store.list(folder, signal === undefined ? {} : { signal })).length > 0
}

/**
 * Refuses a session that lies in the store as a chain of commits, for a boot in the mirror layout that found none there.
 *
 * @throws NexusError `PRECONDITION` naming the setting; the store's error
 */
export async function refuseChain(store: ObjectStore, sessionId: string, signal?: AbortSignal): Promise<void> {
  if (!(await hasChain(store, sessionId, signal))) return
  throw new NexusError(
    'PRECONDITION',
    `session ${sessionId} lies in the store in the versioned layout: boot it with core.object_store.layout versioned or auto, ` +
      'or use another id; a session can not be moved between layouts yet',
    { op: 'durability.resolve-tree', key: sessionId },
  )
}
