import { existsSync } from 'node:fs'
import { fromSystemError, isNexusError, NexusError, systemCode } from '@nexus/errors'
import type { ObjectStore } from '@nexus/objectstore'
import type { StorageManager, StorageScope } from '@nexus/storage'
import type { Clock, Failpoint, Logger } from '@nexus/host'
import { SharedRootsRecord } from './shared-roots-record.ts'
import { agentRoot, APP_ROOT } from './shared-store-key.ts'
import { pullRoot } from './shared-roots-pull.ts'
import { storeScope, type StoredStore } from './shared-roots-store.ts'
import { sweepSharedStaging } from './shared-roots-staging.ts'

/** What {@link SharedRoots} needs. */
export interface SharedRootsOptions {
  store: ObjectStore
  /** Names bucket and prefix: a machine's memory of another store doesn't count. */
  storeId: string
  /** Must never appear in a key. */
  sessionId: string
  storageRoot: string
  agentId: string | undefined
  clock: Clock
  logger: Logger
  failpoint: Failpoint
  /** How long another process's copy of the same store is waited for. */
  lockMs: number
  /** Another host stored what this machine changed, too: the key stays as it is on both sides. */
  onForked: (key: string) => void
  /** Boot goes on without having looked for some stores. */
  onUnreachable: (error: Error) => void
}

/** What one snapshot of the shared roots came to. */
export interface SharedResult {
  /** Uploaded. */
  objects: number
  bytes: number
  dbDurationMs: number
  /** Why some of it isn't stored. */
  error?: Error
}

/**
 * App- and agent-scope stores in the object store: pulled before any plugin can open one, stored after the session's
 * commit. They belong to the machine, so their keys never name a session.
 *
 * Hosts in turn take over what the one before changed. Two that write the same store at once are noticed by the later one,
 * which then stores it no more; between its look and its put there is a moment in which the other is overwritten. Processes
 * of one host share the file. An object that this machine neither hydrated nor stored is never overwritten.
 *
 * @see docs/concepts/durability.md
 */
export class SharedRoots {
  readonly #options: SharedRootsOptions
  readonly #record: SharedRootsRecord
  readonly #roots: readonly string[]
  readonly #unseen: Set<string>
  readonly #refused = new Set<string>()
  /** Keys that the object store held at boot, or that were stored since. */
  readonly #held = new Set<string>()

  constructor(options: SharedRootsOptions) {
    const { agentId, storageRoot, storeId } = options
    this.#options = options
    this.#record = new SharedRootsRecord(storageRoot, storeId)
    this.#roots = agentId === undefined || agentId === '' ? [APP_ROOT] : [APP_ROOT, agentRoot(agentId)]
    this.#unseen = new Set(this.#roots)
  }

  /** Every root was looked for. */
  get complete(): boolean {
    return this.#unseen.size === 0
  }

  /** Keys that hold what this machine neither hydrated nor stored. */
  get refused(): string[] {
    return [...this.#refused].toSorted()
  }

  /**
   * Pulls the stores that don't exist locally, and what another host changed in those that are unchanged here.
   *
   * A machine that has looked before starts without an answer: its missing stores stay closed until a later call, `again`,
   * got one.
   *
   * @throws the store's error on a machine that never looked, and always when called `again`
   */
  async hydrate({ signal, again = false }: { signal?: AbortSignal | undefined; again?: boolean } = {}): Promise<void> {
    const { logger, onUnreachable, storageRoot } = this.#options
    if (!again) await sweepSharedStaging(storageRoot, logger)
    for (const root of this.#unseen) {
      try {
        const { held, forked } = await pullRoot({ ...this.#options, record: this.#record }, root, signal)
        for (const key of held) this.#held.add(key)
        for (const key of forked) this.#lose(key)
        await this.#record.noteHydrated(root)
        this.#unseen.delete(root)
      } catch (error) {
        signal?.throwIfAborted()
        if (again || !this.#record.wasHydrated(root)) throw hydrationError(root, error)
        logger.warn(
          { err: error, root },
          'shared stores could not be looked for: those missing here stay closed for now',
        )
        onUnreachable(error as Error)
      }
    }
  }

  /**
   * To be asked before a database is opened.
   *
   * @throws `UNAVAILABLE` for a shared store that is missing here and may exist in the object store: an empty one in its
   *   place would be stored over it
   */
  guard(scope: StorageScope, pluginId: string, path: string): void {
    if (scope === 'session' || this.complete) return
    const root = scope === 'agent' && this.#roots.length > 1 ? (this.#roots[1] ?? APP_ROOT) : APP_ROOT
    if (!this.#unseen.has(root) || existsSync(path)) return
    throw new NexusError(
      'UNAVAILABLE',
      `the ${scope}-scope store of ${pluginId} is not on this machine and the object store can not be asked for it; ` +
        'it opens when the object store answers again',
      { op: 'storage.open', key: path },
    )
  }

  /** Stores every shared store that was opened in this run and changed. Never rejects. */
  async snapshot(storage: StorageManager | undefined, signal: AbortSignal): Promise<SharedResult> {
    const result: SharedResult = { objects: 0, bytes: 0, dbDurationMs: 0 }
    if (storage === undefined) return result
    const scopes: StorageScope[] = this.#roots.length > 1 ? ['app', 'agent'] : ['app']
    const storing = {
      ...this.#options,
      storage,
      record: this.#record,
      isHeld: (key: string) => this.#held.has(key),
      isRefused: (key: string) => this.#refused.has(key),
    }
    try {
      for (const scope of scopes) {
        for (const stored of await storeScope(storing, scope, signal)) this.#count(result, stored)
      }
    } catch (error) {
      result.error = error instanceof Error ? error : new Error(String(error))
    }
    return result
  }

  #count(result: SharedResult, { key, outcome, sizeBytes, durationMs }: StoredStore): void {
    result.dbDurationMs += durationMs
    if (outcome === 'stored') {
      result.objects += 1
      result.bytes += sizeBytes
      this.#held.add(key)
    }
    if (outcome === 'lost') this.#lose(key)
    if (outcome !== 'refused' || this.#refused.has(key)) return
    this.#refused.add(key)
    this.#options.logger.error(
      { key },
      'the object store holds a shared store of this name that came from elsewhere: it is never overwritten, so the local ' +
        'one is not stored. Remove one of the two',
    )
  }

  #lose(key: string): void {
    if (this.#refused.has(key)) return
    this.#refused.add(key)
    this.#options.logger.error(
      { key },
      'another host and this machine both changed a shared store: each keeps its own, and this machine stores it no more. ' +
        'Move the local one away to go on with that of the object store',
    )
    this.#options.onForked(key)
  }
}

function hydrationError(root: string, error: unknown): NexusError {
  const op = 'durability.shared-hydrate'
  const detail = error instanceof Error ? error.message : String(error)
  // A local disk that refuses is no outage of the store.
  const local = systemCode(error) === undefined ? undefined : fromSystemError(error, op, root)
  const { code, retryable } = isNexusError(error) ? error : (local ?? { code: 'UNAVAILABLE', retryable: true })
  return new NexusError(code, `the shared stores below ${root} could not be restored: ${detail}`, {
    op,
    key: root,
    retryable,
    cause: error,
  })
}
