import { NexusError } from '@nexus/errors'
import { type Clock, type Logger, systemClock, within } from '@nexus/host'
import type { ObjectStoreConfig } from '../config.ts'
import { type Deadlines, DEFAULT_DEADLINES } from './limits.ts'
import type { Backend } from '../driver.ts'
import { ObjectStore } from './object-store.ts'
import { open } from '../registry.ts'
import { hideConfiguredSecrets } from './secret-values.ts'
import { wrapError } from './wrap-error.ts'

/** What {@link openObjectStore} takes besides the configuration. */
export interface OpenObjectStoreOptions {
  logger: Logger
  signal?: AbortSignal
  clock?: Clock
  /** As in `ObjectStoreOptions`. */
  minRateKibS?: number
  /** For tests. */
  deadlines?: Partial<Deadlines>
}

/**
 * Opens the configured backend through the registry, bounded by a deadline, and puts an {@link ObjectStore} over it. A
 * backend that comes up after it was given up on is closed again.
 *
 * @throws NexusError `DRIVER_MISSING`, `INVALID_ARGUMENT` for what the driver refuses in its configuration, `UNAVAILABLE`
 *   when opening took too long, or the factory's error wrapped; the signal's reason when it fired
 */
export async function openObjectStore(
  config: ObjectStoreConfig,
  options: OpenObjectStoreOptions,
): Promise<ObjectStore> {
  const { logger, signal, clock = systemClock, minRateKibS } = options
  const deadlines = { ...DEFAULT_DEADLINES, ...options.deadlines }
  const name = config.backend
  signal?.throwIfAborted()
  hideConfiguredSecrets(config)
  const abort = new AbortController()
  const opening = open(config, { logger, signal: abort.signal })
  const message = `backend ${name} did not open within ${deadlines.baseMs / 1000} s`
  const late = (): Error => new NexusError('UNAVAILABLE', message, { op: 'objectstore.open', key: name })
  try {
    const wrapped = opening.catch((error: unknown) => {
      throw wrapError(error, { verb: 'open', store: name })
    })
    const backend = await within(wrapped, { clock, deadlineMs: deadlines.baseMs, signal, late })
    return new ObjectStore(backend, { name, clock, deadlines, ...(minRateKibS === undefined ? {} : { minRateKibS }) })
  } catch (error) {
    abort.abort(error)
    opening.then((backend) => closeLate(backend, logger, name)).catch(() => undefined)
    throw error
  }
}

function closeLate(backend: Backend, logger: Logger, name: string): void {
  const closing = Promise.resolve(backend.close?.())
  closing.catch((error: unknown) => {
    const detail = wrapError(error, { verb: 'close', store: name }).message
    logger.warn({ backend: name, error: detail }, 'closing a backend that opened too late failed')
  })
}
