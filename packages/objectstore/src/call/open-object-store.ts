import { NexusError } from '@nexus/errors'
import { type Clock, systemClock } from '../clock.ts'
import type { ObjectStoreConfig } from '../config.ts'
import { type Deadlines, DEFAULT_DEADLINES } from './limits.ts'
import type { Backend } from '../driver.ts'
import type { Logger } from '../logger.ts'
import { ObjectStore } from './object-store.ts'
import { open } from '../registry.ts'
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
  const { logger, signal, clock = systemClock } = options
  const deadlines = { ...DEFAULT_DEADLINES, ...options.deadlines }
  const name = config.backend
  signal?.throwIfAborted()
  const abort = new AbortController()
  const backend = await new Promise<Backend>((resolve, reject) => {
    let settled = false
    const settle = (finish: () => void): void => {
      if (settled) return
      settled = true
      clock.clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      finish()
    }
    const giveUp = (error: unknown): void => {
      settle(() => reject(error))
      abort.abort(error)
    }
    const onAbort = (): void => giveUp(signal?.reason)
    const timer = clock.setTimeout(() => {
      const message = `backend ${name} did not open within ${deadlines.baseMs / 1000} s`
      giveUp(new NexusError('UNAVAILABLE', message, { op: 'objectstore.open', key: name }))
    }, deadlines.baseMs)
    signal?.addEventListener('abort', onAbort, { once: true })
    open(config, { logger, signal: abort.signal }).then(
      (opened) => {
        if (settled) closeLate(opened, logger, name)
        else settle(() => resolve(opened))
      },
      (error: unknown) => settle(() => reject(wrapError(error, { verb: 'open', store: name }))),
    )
  })
  const { minRateKibS } = options
  return new ObjectStore(backend, { name, clock, deadlines, ...(minRateKibS === undefined ? {} : { minRateKibS }) })
}

function closeLate(backend: Backend, logger: Logger, name: string): void {
  const closing = Promise.resolve(backend.close?.())
  closing.catch((error: unknown) => {
    const detail = wrapError(error, { verb: 'close', store: name }).message
    logger.warn({ backend: name, error: detail }, 'closing a backend that opened too late failed')
  })
}
