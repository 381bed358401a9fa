import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import { sessionKeys } from '@nexus/durability/names'
import {
  defaultTimings,
  OWNER_MARKER_LIMIT_BYTES,
  parseOwnerMarker,
  readObject,
  type OwnerMarker,
} from '@nexus/durability/tools'
import type { ObjectStore } from '@nexus/objectstore'

/** The host that has a session open, as its store says. */
export interface StoredOwner extends OwnerMarker {
  /** Its heartbeat is recent. By this machine's clock, so a wrong one misleads it. */
  readonly looksLive: boolean
}

/**
 * Reads the owner marker of a session; undefined when there is none, or it can't be understood.
 *
 * @param scratchDir an existing directory for a short-lived file
 */
export async function readStoredOwner(
  store: ObjectStore,
  id: string,
  scratchDir: string,
  signal?: AbortSignal,
): Promise<StoredOwner | undefined> {
  const reading = { scratchPath: join(scratchDir, `${id}.owner`), length: OWNER_MARKER_LIMIT_BYTES, signal }
  try {
    const bytes = await readObject(store, sessionKeys(id).owner, reading)
    if (bytes === undefined) return undefined
    const marker = parseOwnerMarker(bytes)
    const ageMs = Date.now() - Date.parse(marker.heartbeatAt)
    return { ...marker, looksLive: ageMs < defaultTimings.ownerStaleMs }
  } catch (error) {
    if (isNexusError(error, 'CORRUPT')) return undefined
    throw error
  }
}

/** Rejects with `LOCKED` when the owner of a session looks live. */
export async function refuseLiveOwner(
  store: ObjectStore,
  id: string,
  scratchDir: string,
  signal?: AbortSignal,
): Promise<void> {
  const owner = await readStoredOwner(store, id, scratchDir, signal)
  if (owner?.looksLive !== true) return
  const message =
    `session ${id} looks open on ${owner.host} (process ${owner.pid}, heartbeat at ${owner.heartbeatAt}): ` +
    'stop it there, or use force if that host is gone'
  throw new NexusError('LOCKED', message, { op: 'store.owner', key: id, retryable: true })
}
