import { join, resolve } from 'node:path'
import type { BlobStore } from '@nexus/blobs'
import { NexusError } from '@nexus/errors'
import type { Backend } from '@nexus/objectstore'
import type { Storage } from '@nexus/storage'
import type { EventBus } from './bus/event-bus.ts'
import type { ConfigInput } from './config/engine-config.ts'
import type { CommitOptions, SnapshotResult } from '@nexus/durability'
import { Engine } from './engine.ts'
import type { EngineOptions } from './engine-options.ts'
import type { SessionWorkspace } from './session/workspace.ts'

/** The `core.object_store` block, as in YAML. */
export type StoreInput = NonNullable<NonNullable<ConfigInput['core']>['object_store']>

/** How {@link openSession} opens. */
export interface OpenSessionOptions {
  /** The session to go on with, or to begin under this id. Default: a new one with a generated id. */
  id?: string
  /** The data root: sessions live in `<root>/sessions`. Default: `~/.nexus`. */
  root?: string
  /** Where to commit to: an `object_store` block, or a backend as it is. Default: nowhere, the session is local. */
  store?: StoreInput | Backend
  logger?: EngineOptions['logger']
  /** How long to wait for a live holder of the session, in milliseconds. Default 0: `LOCKED` at once. */
  waitForLock?: number
}

/** A session without plugins. */
export interface Session {
  readonly id: string
  /** Absolute path of the tree. */
  readonly dir: string
  /** The session's files. */
  readonly workspace: SessionWorkspace
  readonly bus: EventBus
  readonly blobs: BlobStore
  /** The session's own database of a name; see `StorageManager.open`. */
  storage(name?: string): Storage
  /** Resolves when everything written so far is durable in the store; see `Engine.commit`. */
  commit(options?: string | CommitOptions): Promise<SnapshotResult>
  /** Ends the session with a last commit. */
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
  refuseUnknown(options)
  const { id, root, store, logger, waitForLock } = options
  const backend = store !== undefined && isBackend(store) ? store : undefined
  if (store !== undefined && Object.keys(store).length === 0) {
    throw new NexusError('INVALID_ARGUMENT', 'store names no backend: leave it out for a session that is local only', {
      op: 'session.open',
      key: 'store',
    })
  }
  const config: ConfigInput = {
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
    ...(backend === undefined ? {} : { backend }),
    ...(logger === undefined ? {} : { logger }),
    ...(waitForLock === undefined ? {} : { waitForLock }),
  })
  await engine.boot()
  const { session: workspace, storage } = engine
  const blobs = await openBlobs(engine)
  return {
    id: engine.sessionId,
    dir: workspace.dir,
    workspace,
    bus: engine.bus,
    blobs,
    storage: (name = DEFAULT_STORAGE_NAME) => storage.open('session', name),
    commit: (commitOptions) => engine.commit(commitOptions),
    close: () => engine.stop('close'),
    abandon: () => engine.abandon(),
  }
}

const OPTION_NAMES: ReadonlySet<string> = new Set<keyof OpenSessionOptions>([
  'id',
  'root',
  'store',
  'logger',
  'waitForLock',
])

/** A misspelled `store` would be a session that nothing keeps. */
function refuseUnknown(options: OpenSessionOptions): void {
  const unknown = Object.keys(options).find((name) => !OPTION_NAMES.has(name))
  if (unknown === undefined) return
  const message = `openSession has no option "${unknown}"; there are ${[...OPTION_NAMES].join(', ')}`
  throw new NexusError('INVALID_ARGUMENT', message, { op: 'session.open', key: unknown })
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
