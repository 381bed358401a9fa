import { NexusError } from '@nexus/errors'
import type { Clock } from '../clock.ts'

/** A signal that fires by itself; `clear` takes its timer away. */
export interface BoundedSignal {
  signal: AbortSignal
  clear(): void
}

/** Fires after `limitMs`, with an `UNAVAILABLE` that names what took too long, or when the outer signal does. */
export function boundedSignal(what: string, limitMs: number, clock: Clock, outer?: AbortSignal): BoundedSignal {
  const own = new AbortController()
  const timer = clock.setTimeout(() => {
    own.abort(new NexusError('UNAVAILABLE', `${what} did not finish within ${limitMs} ms`, { op: 'durability' }))
  }, limitMs)
  return {
    signal: outer === undefined ? own.signal : AbortSignal.any([own.signal, outer]),
    clear: () => clock.clearTimeout(timer),
  }
}

/** Settles as the work does, or rejects with the signal's reason; a late failure of the work is swallowed. */
export async function raceSignal<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
