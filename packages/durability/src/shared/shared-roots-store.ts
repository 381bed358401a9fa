import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isNexusError } from '@nexus/errors'
import { isObjectNotFound, type ObjectInfo, type ObjectStore } from '@nexus/objectstore'
import type { DatabaseSnapshot, StorageManager, StorageScope } from '@nexus/storage'
import { type Clock, type Failpoint, type Logger, sha256OfFile } from '@nexus/host'
import { isAsSeen, seenObject, type SharedObjectRecord, type SharedRootsRecord } from './shared-roots-record.ts'
import { withSharedStaging } from './shared-roots-staging.ts'
import { sharedStoreKey } from './shared-store-key.ts'
import { withSharedStoreLock } from './shared-store-lock.ts'

/** What storing works with. */
export interface SharedStoring {
  store: ObjectStore
  sessionId: string
  storageRoot: string
  record: SharedRootsRecord
  storage: StorageManager
  clock: Clock
  logger: Logger
  failpoint: Failpoint
  lockMs: number
  /** Whether the object store is known to hold an object of this key now. */
  isHeld: (key: string) => boolean
  /** Whether the object was found to come from elsewhere: not asked again in this run. */
  isRefused: (key: string) => boolean
}

/**
 * What became of one shared store. `refused`: the object came from elsewhere. `lost`: another host stored it since this
 * machine had it. `unchanged`: the store holds these bytes.
 */
export interface StoredStore {
  key: string
  outcome: 'stored' | 'unchanged' | 'refused' | 'lost'
  sizeBytes: number
  durationMs: number
}

/** Failpoints of storing. */
export const SHARED_STORE_FAILPOINTS: readonly string[] = [
  'shared-store:copied',
  'shared-store:before-put',
  'shared-store:put',
]

/**
 * Copies and uploads every store of one scope that was opened in this run.
 *
 * The locks of all of them are held from the copy to the end of the upload, taken in the order of their keys so that no
 * two processes wait for each other: with that, a later upload always holds what an earlier one held.
 */
export async function storeScope(
  storing: SharedStoring,
  scope: StorageScope,
  signal: AbortSignal,
): Promise<StoredStore[]> {
  const { storage, storageRoot, sessionId } = storing
  const keys = storage.paths(scope).map((path) => sharedStoreKey(path, storageRoot, sessionId))
  if (keys.length === 0) return []
  return withLocks(storing, keys.toSorted(), signal, () =>
    withSharedStaging(storageRoot, (staging) => copyAndStore(storing, scope, staging, signal)),
  )
}

async function withLocks<T>(
  storing: SharedStoring,
  keys: readonly string[],
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const [key, ...others] = keys
  if (key === undefined) return work()
  return withSharedStoreLock(storing.record.lockDir(key), { ...storing, signal }, () =>
    withLocks(storing, others, signal, work),
  )
}

async function copyAndStore(
  storing: SharedStoring,
  scope: StorageScope,
  staging: string,
  signal: AbortSignal,
): Promise<StoredStore[]> {
  const { storage, store, record, failpoint } = storing
  const copies = await storage.snapshot(scope, staging, { signal })
  await failpoint('shared-store:copied')
  const stored: (StoredStore & { sha256: string })[] = []
  for (const copy of copies) stored.push(await storeOne(storing, copy, signal))
  const fresh = stored.filter(({ outcome }) => outcome === 'stored')
  if (fresh.length === 0) return stored
  await store.flush({ signal })
  for (const { key, sha256 } of fresh) {
    const object = await listed(storing, key, signal)
    await record.noteObject(key, { sha256, attempts: [], seen: object && seenObject(object) })
  }
  return stored
}

async function storeOne(
  storing: SharedStoring,
  copy: DatabaseSnapshot,
  signal: AbortSignal,
): Promise<StoredStore & { sha256: string }> {
  const { store, record, storageRoot, sessionId, failpoint } = storing
  const key = sharedStoreKey(copy.livePath, storageRoot, sessionId)
  const sha256 = await sha256OfFile(copy.snapshotPath)
  const about = { key, sha256, sizeBytes: copy.sizeBytes, durationMs: copy.durationMs }
  if (storing.isRefused(key)) return { ...about, outcome: 'refused' }
  const known = record.object(key)
  if (known?.sha256 === sha256 && storing.isHeld(key)) return { ...about, outcome: 'unchanged' }
  // Noted first: if the answer is lost, or we die, the object is recognised as ours by its digest.
  const attempts = [...(known?.attempts ?? []), sha256]
  await record.noteObject(key, { sha256: known?.sha256, attempts, seen: known?.seen })
  if (known?.sha256 !== undefined) {
    if (await isOthers(storing, key, known, copy.snapshotPath, signal)) return { ...about, outcome: 'lost' }
  } else {
    await failpoint('shared-store:before-put')
    if (await create(storing, key, copy.snapshotPath, signal)) return { ...about, outcome: 'stored' }
    const held = await digestInStore(storing, key, copy.snapshotPath, signal)
    if (held !== undefined && !attempts.includes(held)) return { ...about, outcome: 'refused' }
  }
  await store.put(key, copy.snapshotPath, { signal })
  await failpoint('shared-store:put')
  return { ...about, outcome: 'stored' }
}

/** Whether another host has stored the object since this machine had it. Reads it only when the listing says so. */
async function isOthers(
  storing: SharedStoring,
  key: string,
  known: SharedObjectRecord,
  besides: string,
  signal: AbortSignal,
): Promise<boolean> {
  const object = await listed(storing, key, signal)
  if (object === undefined || isAsSeen(known.seen, object)) return false
  const held = await digestInStore(storing, key, besides, signal)
  return held !== undefined && held !== known.sha256 && !known.attempts.includes(held)
}

async function listed({ store }: SharedStoring, key: string, signal: AbortSignal): Promise<ObjectInfo | undefined> {
  return (await store.list(dirname(key), { signal })).find((object) => object.key === key)
}

/** True when the object was created just now, false when there is one. */
async function create(storing: SharedStoring, key: string, path: string, signal: AbortSignal): Promise<boolean> {
  const { store } = storing
  if (store.capabilities.putIfAbsent) {
    try {
      return await store.putIfAbsent(key, path, { signal })
    } catch (error) {
      // Whose object is there, if any, is decided by its bytes.
      if (isNexusError(error, 'OUTCOME_UNKNOWN')) return false
      // The store turned out not to decide such things: a look before the put must do, as for a driver that can't ask.
      if (!isNexusError(error, 'UNSUPPORTED')) throw error
    }
  }
  if ((await listed(storing, key, signal)) !== undefined) return false
  await store.put(key, path, { signal })
  return true
}

/** The digest of what the store holds, or undefined for nothing. */
async function digestInStore(
  { store }: SharedStoring,
  key: string,
  besides: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const path = join(dirname(besides), 'stored.db')
  try {
    await store.get(key, path, { signal })
    return await sha256OfFile(path)
  } catch (error) {
    if (isObjectNotFound(error)) return undefined
    throw error
  } finally {
    await rm(path, { force: true })
  }
}
