import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasChain, layoutInStore } from '@nexus/durability/tools'
import { nearName } from '@nexus/engine/config'
import type { KeepOptions } from '@nexus/engine/history'
import { NexusError } from '@nexus/errors'
import { storedSessionIds } from '@nexus/inspect'
import type { ObjectStore } from '@nexus/objectstore'
import type { Context } from '../../frame/context.ts'
import { requireStore } from '../../frame/require-store.ts'

/** What commands for versioned sessions work with. */
export interface VersionedStore {
  store: ObjectStore
  /** How the functions behind them are called. */
  options: { signal: AbortSignal; keep: KeepOptions | undefined }
  /** How long a session is kept after its last commit; 0: for ever. */
  ttlMs: number
}

/** The configured store, and what the configuration says of versioned sessions. */
export async function versionedStore(context: Context): Promise<VersionedStore> {
  const store = await requireStore(context)
  const { objectStore } = (await context.places()).loaded.config.core
  return { store, options: { signal: context.signal, keep: objectStore?.keep }, ttlMs: objectStore?.ttlMs ?? 0 }
}

/**
 * Refuses a session that has no chain of commits in the store.
 *
 * @throws NexusError `UNSUPPORTED` for one of the mirror layout, `NOT_FOUND` with the name that was meant
 */
export async function requireChain({ store, options }: VersionedStore, id: string): Promise<void> {
  const { signal } = options
  if (await hasChain(store, id, signal)) return
  if (await isMirrored(store, id, signal)) {
    const message =
      `session ${id} is in the mirror layout, which keeps its newest commit alone; ` +
      `nexus store migrate ${id} --to versioned gives it a history from then on`
    throw new NexusError('UNSUPPORTED', message, { op: 'cli.history', key: id })
  }
  const near = nearName(id, await storedSessionIds(store, signal))
  const meant = near === undefined ? '' : `. Did you mean ${near}?`
  throw new NexusError('NOT_FOUND', `the store (${store.name}) has no session ${id}${meant}`, {
    op: 'cli.history',
    key: id,
  })
}

async function isMirrored(store: ObjectStore, id: string, signal: AbortSignal): Promise<boolean> {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-cli-'))
  try {
    return (await (await layoutInStore(store, id, dir)).head(signal)) !== undefined
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}
