import { NexusError } from '@nexus/errors'
import type { Clock, TimerHandle } from './clock.ts'

/** A point in time that several steps share, as an abort signal and as "milliseconds left". */
export class Deadline {
  /** Fires at the deadline, with an `UNAVAILABLE` that names what took too long, or when the outer signal does. */
  readonly signal: AbortSignal
  readonly #clock: Clock
  readonly #endsAtMs: number
  readonly #timer: TimerHandle

  /**
   * @param what named in the abort reason, e.g. `engine.stop`
   * @param outer ends it earlier
   */
  constructor(what: string, limitMs: number, clock: Clock, outer?: AbortSignal) {
    const own = new AbortController()
    this.#clock = clock
    this.#endsAtMs = clock.now() + limitMs
    this.signal = outer === undefined ? own.signal : AbortSignal.any([own.signal, outer])
    this.#timer = clock.setTimeout(() => {
      own.abort(new NexusError('UNAVAILABLE', `${what} did not finish within ${limitMs} ms`, { op: what }))
    }, limitMs)
  }

  get leftMs(): number {
    return Math.max(0, this.#endsAtMs - this.#clock.now())
  }

  /** Settles as the work does, or rejects with the abort reason when the work outlasts the deadline. */
  race<T>(work: Promise<T>): Promise<T> {
    return raceSignal(work, this.signal)
  }

  /** Takes the timer away: to be called when the last step is done. */
  clear(): void {
    this.#clock.clearTimeout(this.#timer)
  }
}

/** Settles as the work does, or rejects with the signal's reason; a late failure of the work is swallowed. */
export function raceSignal<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

/** How long {@link within} waits. */
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
