import { type Clock, raceSignal, systemClock } from '@nexus/host'

/** Settles as the promise does, or rejects with the signal's reason when that fires first; a late failure is swallowed. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return signal === undefined ? promise : raceSignal(promise, signal)
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
