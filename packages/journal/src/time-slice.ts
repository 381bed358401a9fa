import { setImmediate } from 'node:timers/promises'

/** Keeps long synchronous work from blocking the event loop: call {@link TimeSlice.rest} between pieces of it. */
export class TimeSlice {
  readonly #workMs: number
  readonly #signal: AbortSignal | undefined
  #start = performance.now()

  /** @param workMs how long to work before the loop gets a turn */
  constructor(workMs = 4, signal?: AbortSignal) {
    this.#workMs = workMs
    this.#signal = signal
  }

  /** Undefined while there is time left, so that a short piece of work costs no promise. Rejects when aborted. */
  rest(): Promise<void> | undefined {
    return performance.now() - this.#start < this.#workMs ? undefined : this.#turn()
  }

  async #turn(): Promise<void> {
    await setImmediate()
    this.#signal?.throwIfAborted()
    this.#start = performance.now()
  }
}
