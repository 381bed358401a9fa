import { NexusError } from '@nexus/errors'
import { noFailpoint, type Failpoint } from '@nexus/host'
import { sessionKeys } from '@nexus/durability/names'
import { hasChain } from '@nexus/durability/tools'
import { forEachBounded, type ObjectInfo, type ObjectStore } from '@nexus/objectstore'
import { Scratch } from '../read/scratch.ts'
import { refuseLiveOwner } from './stored-owner.ts'

const CONCURRENCY = 16

/** Failpoints of a removal from a store, in the order it passes them; `object-deleted` is passed once per object. */
export const REMOVE_STORED_FAILPOINTS: readonly string[] = [
  'remove-stored:marker-deleted',
  'remove-stored:manifest-deleted',
  'remove-stored:object-deleted',
  'remove-stored:done',
]

/** Every object that a store has of a session, whatever became of its commit. */
export async function storedObjects(store: ObjectStore, id: string, signal?: AbortSignal): Promise<ObjectInfo[]> {
  const { tree, manifestPrefix, marker, owner } = sessionKeys(id)
  const options = signal === undefined ? {} : { signal }
  const prefixes = [tree, manifestPrefix, owner.slice(0, owner.lastIndexOf('/'))]
  const lists = await Promise.all(prefixes.map(async (prefix) => await store.list(prefix, options)))
  // An object at a prefix isn't under it; the marker is one by itself.
  const names = await store.listNames('sessions', options)
  const markers = names.includes(`${id}.snapshot.json`) ? [{ key: marker, size: 0 }] : []
  return [...lists.flat(), ...markers]
}

/**
 * Removes a session from a store. The marker goes first, then the manifest: from then on there is no such session, and what a
 * kill leaves of its objects belongs to nothing. Doing it again removes the rest.
 *
 * @param options.force although its owner looks live: that host goes on, and may commit the session anew
 * @throws NexusError `LOCKED` when its owner looks live, `NOT_FOUND` when the store has nothing of it, `UNSUPPORTED` for a
 *   session of the versioned layout, the store's own error
 */
export async function removeStoredSession(
  store: ObjectStore,
  id: string,
  options: { force?: boolean; signal?: AbortSignal; failpoint?: Failpoint } = {},
): Promise<{ objects: number; bytes: number }> {
  const { force = false, signal, failpoint = noFailpoint } = options
  const waiting = signal === undefined ? {} : { signal }
  const keys = sessionKeys(id)
  await refuseVersioned(store, id, signal)
  const objects = await storedObjects(store, id, signal)
  if (objects.length === 0)
    throw new NexusError('NOT_FOUND', `the store has nothing of session ${id}`, { op: 'remove', key: id })
  const scratch = new Scratch()
  try {
    if (!force) await refuseLiveOwner(store, id, scratch.dir, signal)
    // A marker without its manifest would be damage; a manifest without its marker is a whole session.
    await store.delete(keys.marker, waiting)
    await store.flush(waiting)
    await failpoint('remove-stored:marker-deleted')
    await store.delete(keys.manifest, waiting)
    await store.flush(waiting)
    await failpoint('remove-stored:manifest-deleted')
    const rest = objects.filter(({ key }) => key !== keys.marker && key !== keys.manifest)
    await forEachBounded(
      rest,
      CONCURRENCY,
      async ({ key }, _at, laneSignal) => {
        await store.delete(key, { signal: laneSignal })
        await failpoint('remove-stored:object-deleted')
      },
      signal,
    )
    await store.flush(waiting)
    await failpoint('remove-stored:done')
  } finally {
    await scratch.remove()
  }
  return { objects: objects.length, bytes: objects.reduce((sum, { size }) => sum + size, 0) }
}

async function refuseVersioned(store: ObjectStore, id: string, signal?: AbortSignal): Promise<void> {
  if (!(await hasChain(store, id, signal))) return
  const message = `session ${id} is in the versioned layout, which this command can't remove`
  throw new NexusError('UNSUPPORTED', message, { op: 'remove', key: id })
}
