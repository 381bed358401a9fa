import type { Clock } from '../clock.ts'
import { systemClock } from '../clock.ts'

/** Settles as the promise does, or rejects with the signal's reason when that fires first; a late failure is swallowed. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

/** Resolves after a while, or rejects with the signal's reason when that fires first. */
export function pause(delayMs: number, signal?: AbortSignal, clock: Clock = systemClock): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason as Error)
    const onAbort = (): void => {
      clock.clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = clock.setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, delayMs)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}
