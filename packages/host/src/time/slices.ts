const DEFAULT_SLICE_MS = 4

/**
 * A budget of main-thread time shared by the synchronous parts of one operation: thousands of file-system calls without a
 * promise each, and the event loop served every few milliseconds.
 */
export class Slices {
  readonly #sliceMs: number
  readonly #signal: AbortSignal | undefined
  #startedMs = performance.now()
  #turn: Promise<void> | undefined

  constructor(options: { sliceMs?: number | undefined; signal?: AbortSignal | undefined } = {}) {
    this.#sliceMs = options.sliceMs ?? DEFAULT_SLICE_MS
    this.#signal = options.signal
  }

  /** Whether this slice is used up: then `await pause()` before going on. */
  get due(): boolean {
    return performance.now() - this.#startedMs >= this.#sliceMs
  }

  /** Undefined while there is time left, so that a short piece of work costs no promise; else {@link pause}. */
  rest(): Promise<void> | undefined {
    return this.due ? this.pause() : undefined
  }

  /** Lets the event loop run, then starts a new slice. Rejects with the signal's reason when it fired. */
  async pause(): Promise<void> {
    this.#turn ??= new Promise<void>((resolve) => {
      setImmediate(() => {
        this.#turn = undefined
        this.#startedMs = performance.now()
        resolve()
      })
    })
    await this.#turn
    this.#signal?.throwIfAborted()
  }
}
