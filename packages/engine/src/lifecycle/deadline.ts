import { NexusError } from '@nexus/errors'
import type { Clock, TimerHandle } from '../clock.ts'

/** A point in time that several steps share, as an abort signal and as "milliseconds left". */
export class Deadline {
  readonly #clock: Clock
  readonly #endsAtMs: number
  readonly #controller = new AbortController()
  readonly #timer: TimerHandle

  /** @param what named in the abort reason, e.g. `stop()` */
  constructor(what: string, limitMs: number, clock: Clock) {
    this.#clock = clock
    this.#endsAtMs = clock.now() + limitMs
    this.#timer = clock.setTimeout(() => {
      this.#controller.abort(new NexusError('UNAVAILABLE', `${what} did not finish within ${limitMs} ms`, { op: what }))
    }, limitMs)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get leftMs(): number {
    return Math.max(0, this.#endsAtMs - this.#clock.now())
  }

  /** Rejects with the abort reason when the work outlasts the deadline; the work's own late failure is swallowed. */
  async race<T>(work: Promise<T>): Promise<T> {
    const { signal } = this
    if (signal.aborted) {
      work.catch(() => undefined)
      throw signal.reason
    }
    return await new Promise<T>((resolve, reject) => {
      const onAbort = (): void => reject(signal.reason as Error)
      signal.addEventListener('abort', onAbort, { once: true })
      work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
    })
  }

  clear(): void {
    this.#clock.clearTimeout(this.#timer)
  }
}
