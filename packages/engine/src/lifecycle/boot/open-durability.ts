import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import process from 'node:process'
import { ObjectStore, openObjectStore, type Backend } from '@nexus/objectstore'
import type { EngineConfig } from '../../config/engine-config.ts'
import { chooseLayout, openSessionDurability, type SessionDurability } from '@nexus/durability'
import type { ResolvedOptions } from '../../engine-options.ts'
import { type Fence, systemProcesses } from '@nexus/host'

const unnamed = new WeakMap<Backend, string>()

/** A backend that doesn't say which bucket it is, is one of its own: taking two for one would overwrite the other's objects. */
function identityOf(backend: Backend): string {
  if (backend.identity !== undefined) return backend.identity
  const known = unnamed.get(backend) ?? randomUUID()
  unnamed.set(backend, known)
  return known
}

/** When a run takes a versioned session; the other layout can only detect. */
const CLAIMS = { detect: 'boot', claim: 'boot', lazy: 'first-commit', refuse: 'if-free' } as const

/** The store of a run, and what keeps the session in it. */
export interface OpenedStore {
  store: ObjectStore
  durability: SessionDurability
}

/**
 * Opens the backend, once per run, and what keeps the session in it; undefined when none is named.
 *
 * @param of `fresh`: the id was generated just now
 * @throws whatever the driver says about its configuration; with a layout that is left open, the store's error where it
 *   answered with what can't be understood
 */
export async function openDurability(
  sessionId: string,
  of: { config: EngineConfig; fresh: boolean },
  options: ResolvedOptions,
  fence: Fence,
): Promise<OpenedStore | undefined> {
  const { config, fresh } = of
  const { backend, logger, clock } = options
  const settings = config.core.objectStore
  if (settings === undefined) return undefined
  const name = settings.backend || 'embedded'
  const store =
    backend === undefined
      ? await openObjectStore(settings, { logger, clock, minRateKibS: settings.minRateKibS })
      : new ObjectStore(backend, { name, clock, minRateKibS: settings.minRateKibS })
  try {
    const { root: sessionsRoot } = config.core.sessions
    const question = { store, sessionId, sessionsRoot, fresh, logger, signal: fence.signal }
    const layoutName = settings.layout === 'auto' ? await chooseLayout(question) : settings.layout
    const durability = openSessionDurability({
      store,
      backendName: name,
      sessionId,
      sessionsRoot: config.core.sessions.root,
      storeId:
        backend === undefined
          ? [name, settings.endpoint, settings.bucket, settings.prefix].join(' ')
          : identityOf(backend),
      storageRoot: config.core.storage.root,
      agentId: config.core.agentId || undefined,
      policy: settings.failurePolicy,
      staleLocal: settings.staleLocal,
      onLost: settings.onLost,
      onMixed: settings.onMixed,
      layoutName,
      claims: CLAIMS[settings.ownership],
      verifyContent: settings.verifyContent,
      acceptEmpty: settings.acceptEmpty,
      keep: settings.keep,
      ttlMs: settings.ttlMs,
      instanceId: options.instanceId,
      host: hostname(),
      pid: process.pid,
      bootId: systemProcesses.self().bootId,
      clock,
      random: options.random,
      logger,
      failpoint: options.failpoint,
      fence,
    })
    return { store, durability }
  } catch (error) {
    await store.close().catch(() => undefined)
    throw error
  }
}
