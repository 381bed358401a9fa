import { NexusError } from '@nexus/errors'
import type { ObjectStoreConfig } from './config.ts'
import type { Backend } from './driver.ts'
import type { Logger } from '@nexus/host'

/** What a factory gets besides the configuration. */
export interface OpenOptions {
  logger: Logger
  /** Fires when the caller gave up on opening. */
  signal: AbortSignal
}

/**
 * Opens a backend. It validates its configuration naming the key, loads its vendor SDK here and not at import, and checks
 * nothing remote: whether an outage fails a boot is the engine's decision.
 */
export type BackendFactory = (config: ObjectStoreConfig, options: OpenOptions) => Backend | Promise<Backend>

// The version is that of the stored shape, never of the release: two copies of this package in one process must meet in
// one table, or a backend registered with the one is missing from the other.
const REGISTRY_KEY = Symbol.for('nexus.objectstore.registry/1')

function table(): Map<string, BackendFactory> {
  const holder = globalThis as unknown as Record<symbol, Map<string, BackendFactory> | undefined>
  return (holder[REGISTRY_KEY] ??= new Map())
}

/**
 * Makes a backend known under a name. A module calls it once, at import. The same function under the same name again is a
 * no-op.
 *
 * @throws NexusError `INVALID_ARGUMENT` for an empty name or a factory that is no function; `DRIVER_CONFLICT` when another
 *   factory holds the name
 */
export function register(name: string, factory: BackendFactory): void {
  const op = 'objectstore.register'
  if (typeof name !== 'string' || name.trim() === '') {
    throw new NexusError('INVALID_ARGUMENT', 'a backend needs a name that is not empty', { op })
  }
  if (typeof factory !== 'function') {
    throw new NexusError('INVALID_ARGUMENT', `the factory of backend "${name}" is not a function`, { op, key: name })
  }
  const present = table().get(name)
  if (present === factory) return
  if (present !== undefined) {
    const hint = 'two packages claim the name, or two copies of one package are installed; keep one'
    throw new NexusError('DRIVER_CONFLICT', `backend "${name}" is registered already: ${hint}`, { op, key: name })
  }
  table().set(name, factory)
}

/** Whether a backend is registered under the name. */
export function registered(name: string): boolean {
  return table().has(name)
}

/** The names of all registered backends, sorted. */
export function backends(): string[] {
  return [...table().keys()].toSorted()
}

/** Forgets a backend, and says whether there was one. For tests: nothing in production takes a backend away. */
export function unregister(name: string): boolean {
  return table().delete(name)
}

/**
 * Opens the backend that `config.backend` names. The engine calls `openObjectStore`, which adds deadlines and error
 * wrapping; this is the bare driver.
 *
 * @throws NexusError `DRIVER_MISSING` for a name that isn't registered, saying which there are; `INTERNAL` when the factory
 *   returned something that is not a backend; whatever the factory throws
 */
export async function open(
  config: ObjectStoreConfig,
  options: { logger: Logger; signal?: AbortSignal },
): Promise<Backend> {
  const { backend: name } = config
  const factory = table().get(name)
  if (factory === undefined) {
    const key = 'core.object_store.backend'
    throw new NexusError('DRIVER_MISSING', missingMessage(), { op: 'objectstore.open', key })
  }
  options.signal?.throwIfAborted()
  const signal = options.signal ?? new AbortController().signal
  const backend = await factory(config, { logger: options.logger, signal })
  assertBackend(backend, name)
  return backend
}

const METHODS = ['hydrate', 'put', 'delete', 'list', 'flush'] as const

/** Refuses a value that lacks one of the five methods, naming it: drivers are written in plain JavaScript too. */
export function assertBackend(value: unknown, name: string): asserts value is Backend {
  const candidate = value as Partial<Record<string, unknown>> | null | undefined
  const missing = METHODS.filter((method) => typeof candidate?.[method] !== 'function')
  if (missing.length === 0) return
  const message = `backend "${name}" is not a backend: ${missing.join(', ')} missing`
  throw new NexusError('INTERNAL', message, { op: 'objectstore.open', key: name })
}

// Never quotes the name that was asked for: in a configuration it may be an expanded variable, and the wrong one.
function missingMessage(): string {
  const present = backends()
  if (present.length === 0) {
    return (
      'the backend that core.object_store.backend names is not registered, and no other is: no backend module was imported. ' +
      "Import one for its side effect before the engine starts, e.g. import '@nexus/objectstore-s3'"
    )
  }
  return (
    `the backend that core.object_store.backend names is not registered; registered: ${present.join(', ')}. ` +
    'Mend core.object_store.backend, or import the module that registers it'
  )
}
