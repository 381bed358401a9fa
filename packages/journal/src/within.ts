import type { Clock } from './clock.ts'

export interface WithinOptions {
  clock: Clock
  deadlineMs: number
  signal: AbortSignal | undefined
  /** The rejection when the deadline passes. */
  late: () => Error
}

/** Settles like `promise`, unless the deadline or the signal comes first. Leaves no timer and no listener behind. */
export function within<T>(promise: Promise<T>, { clock, deadlineMs, signal, late }: WithinOptions): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => finish(() => reject(signal?.reason as Error))
    const timer = clock.setTimeout(() => finish(() => reject(late())), deadlineMs)
    const finish = (settle: () => void): void => {
      clock.clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      settle()
    }
    if (signal?.aborted) return onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
    promise.then(
      (value) => finish(() => resolve(value)),
      (error: Error) => finish(() => reject(error)),
    )
  })
}
