import { join, resolve } from 'node:path'
import type { BlobStore } from '@nexus/blobs'
import { NexusError } from '@nexus/errors'
import type { Backend } from '@nexus/objectstore'
import type { Storage } from '@nexus/storage'
import type { EventHandler } from './bus/event.ts'
import type { SessionBus } from './bus/event-bus.ts'
import type { ConfigInput } from './config/engine-config.ts'
import type { CommitOptions, SnapshotResult } from '@nexus/durability'
import { Engine } from './engine.ts'
import type { EngineOptions } from './engine-options.ts'
import type { SessionWorkspace } from './session/workspace.ts'
import type { EngineStatus } from './lifecycle/status.ts'
import { takeTurn, type TurnOutcome } from './lifecycle/take-turn.ts'

/** The `core.object_store` block, as in YAML. */
export type StoreInput = NonNullable<NonNullable<ConfigInput['core']>['object_store']>

/** How {@link openSession} opens. */
export interface OpenSessionOptions {
  /** The session to go on with, or to begin under this id. Default: a new one with a generated id. */
  id?: string
  /** A session of this id that was removed from the store begins anew. Default: `NOT_FOUND`, which says when it was removed. */
  beginAgain?: boolean
  /** The data root: sessions live in `<root>/sessions`. Default: `~/.nexus`. */
  root?: string
  /** Where to commit to: an `object_store` block, or a backend as it is. Default: nowhere, the session is local. */
  store?: StoreInput | Backend
  /** The `journal` and `engine` blocks, as in YAML: fsync, rotation, how long an end may take. */
  config?: Pick<ConfigInput, 'journal' | 'engine'>
  /** Called with every event from the first on, so that what the boot finds out isn't missed. */
  onEvent?: EventHandler
  logger?: EngineOptions['logger']
  /** How long to wait for a live holder of the session, in milliseconds. Default 0: `LOCKED` at once. */
  waitForLock?: number
}

/** A session without plugins. `await using` closes it. */
export interface Session extends AsyncDisposable {
  readonly id: string
  /** Whether it existed before, here or in the store. */
  readonly resumed: boolean
  /** Absolute path of the tree. */
  readonly dir: string
  /** The session's files. */
  readonly workspace: SessionWorkspace
  readonly bus: SessionBus
  readonly blobs: BlobStore
  /** The session's own database of a name; see `StorageManager.open`. */
  storage(name?: string): Storage
  /** Resolves when everything written so far is durable in the store; see `Engine.commit`. */
  commit(options?: string | CommitOptions): Promise<SnapshotResult>
  /**
   * Runs work as one turn: begins it, ends it, and resolves when its commit is durable. One whose work throws ends as failed, and
   * the error is thrown on.
   *
   * @throws what the work throws; `UNAVAILABLE` when the turn is done and could not be committed: a later commit holds it, too
   */
  turn<T>(work: (turnId: string) => T | Promise<T>): Promise<TurnOutcome<T>>
  /** How the session and its durability stand. Never throws, also after the end. */
  status(): EngineStatus
  /** Ends the session with a last commit, unless nothing has changed since the one before. */
  close(): Promise<void>
  /** Drops it as a killed process would: nothing more is written. */
  abandon(): Promise<void>
}

/** The database that a session has when it asks for none by name. */
const DEFAULT_STORAGE_NAME = 'main'

function isBackend(store: StoreInput | Backend): store is Backend {
  return typeof (store as Partial<Backend>).hydrate === 'function'
}

/**
 * Opens a session without writing a configuration: a directory to work in that `commit()` makes durable. Rejects as
 * `Engine.boot`.
 *
 * @see docs/guides/embedding.md
 */
export async function openSession(options: OpenSessionOptions = {}): Promise<Session> {
  refuseWrongOptions(options)
  const { id, beginAgain, root, store, config: blocks, onEvent, logger, waitForLock } = options
  const backend = store !== undefined && isBackend(store) ? store : undefined
  if (store !== undefined && Object.keys(store).length === 0) {
    refuse('store', 'it names no backend: leave it out for a session that is local only')
  }
  const config: ConfigInput = {
    ...blocks,
    core: {
      ...(root === undefined
        ? {}
        : { sessions: { root: join(resolve(root), 'sessions') }, storage: { root: resolve(root) } }),
      ...(store === undefined || isBackend(store) ? {} : { object_store: store }),
      ...(logger === undefined ? { log_level: 'warn' } : {}),
    },
  }
  const engine = await Engine.fromConfig(config, {
    ...(id === undefined ? {} : { recallSessionId: id }),
    ...(beginAgain === undefined ? {} : { beginAgain }),
    ...(backend === undefined ? {} : { backend }),
    ...(logger === undefined ? {} : { logger }),
    ...(waitForLock === undefined ? {} : { waitForLock }),
  })
  if (onEvent !== undefined) engine.bus.subscribeAll(onEvent)
  await engine.boot()
  const { session: workspace, storage } = engine
  const blobs = await openBlobs(engine)
  const close = (): Promise<void> => engine.stop('close', { onlyIfNew: true })
  return {
    id: engine.sessionId,
    resumed: engine.status().resumed === true,
    dir: workspace.dir,
    workspace,
    bus: engine.bus,
    blobs,
    storage: (name = DEFAULT_STORAGE_NAME) => storage.open('session', name),
    commit: (commitOptions) => engine.commit(commitOptions),
    turn: (work) => takeTurn({ sessionId: engine.sessionId, bus: engine.bus, hasStore: store !== undefined }, work),
    status: () => engine.status(),
    close,
    abandon: () => engine.abandon(),
    [Symbol.asyncDispose]: close,
  }
}

const isText = (value: unknown): boolean => typeof value === 'string'
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null
const isFunction = (value: unknown): boolean => typeof value === 'function'

/** What each option must be; {@link Engine.fromConfig} looks further into those that are configuration. */
const OPTIONS: Readonly<Record<keyof OpenSessionOptions, readonly [must: string, is: (value: unknown) => boolean]>> = {
  id: ['a string', isText],
  beginAgain: ['true or false', (value) => typeof value === 'boolean'],
  root: ['a path', isText],
  store: ['an object_store block or a Backend', isObject],
  config: ['an object with the blocks `journal` and `engine`', isBlocks],
  onEvent: ['a function', isFunction],
  logger: ['an object with trace, debug, info, warn and error', isObject],
  waitForLock: ['a number of milliseconds from 0', (value) => Number.isFinite(value) && (value as number) >= 0],
}

function isBlocks(value: unknown): boolean {
  return isObject(value) && Object.keys(value as object).every((name) => name === 'journal' || name === 'engine')
}

/** A misspelled `store` would be a session that nothing keeps. */
function refuseWrongOptions(options: OpenSessionOptions): void {
  for (const [name, value] of Object.entries(options)) {
    const [must, is] = Object.hasOwn(OPTIONS, name) ? OPTIONS[name as keyof OpenSessionOptions] : []
    if (must === undefined) refuse(name, `there is no such option; there are ${Object.keys(OPTIONS).join(', ')}`)
    if (value !== undefined && is?.(value) === false) refuse(name, `it must be ${must}`)
  }
}

function refuse(name: string, why: string): never {
  throw new NexusError('INVALID_ARGUMENT', `openSession: "${name}": ${why}`, { op: 'session.open', key: name })
}

/** A session that can't be handed out whole is given back. */
async function openBlobs(engine: Engine): Promise<BlobStore> {
  try {
    return await engine.session.blobStore()
  } catch (error) {
    await engine.stop('failed open')
    throw error
  }
}
