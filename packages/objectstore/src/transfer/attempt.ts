import { setMaxListeners } from 'node:events'
import { type Clock, systemClock, type TimerHandle } from '@nexus/host'

/** A shorter drain is within the patience that there is anyway. */
const LEAST_DRAIN_MS = 1_000

/** How long an {@link Attempt} may be silent, and what it is then. */
export interface AttemptOptions {
  /** Longest silence, in ms, at least 1. */
  idleTimeoutMs: number
  /** How much longer it may last now, in ms: bytes that were handed over are still on their way. See `Slots.drainMs`. */
  drainMs?: () => number
  /** The error that a silence of so many ms becomes. */
  silence: (silentMs: number) => Error
  clock?: Clock
}

/**
 * One request under watch: it ends when the caller's signal fires, when nothing moves for too long, or when something of ours
 * breaks that its stream does not pass on.
 */
export class Attempt {
  readonly #abort = new AbortController()
  readonly #clock: Clock
  readonly #caller: AbortSignal
  readonly #onCallerAbort: () => void
  readonly #options: AttemptOptions
  #timer: TimerHandle | undefined

  constructor(caller: AbortSignal, options: AttemptOptions) {
    this.#clock = options.clock ?? systemClock
    this.#caller = caller
    this.#options = options
    setMaxListeners(0, this.#abort.signal)
    this.#onCallerAbort = () => this.#abort.abort(caller.reason)
    caller.addEventListener('abort', this.#onCallerAbort, { once: true })
    if (caller.aborted) this.#onCallerAbort()
    this.moved()
  }

  /** What the request is given. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Something moved: the silence begins anew. */
  moved(): void {
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer)
    if (this.#abort.signal.aborted) return
    const { idleTimeoutMs } = this.#options
    this.#timer = this.#clock.setTimeout(() => this.#silent(idleTimeoutMs), idleTimeoutMs)
  }

  #silent(forMs: number): void {
    const { idleTimeoutMs, drainMs = () => 0, silence } = this.#options
    // What was handed over may still be on its way: only the answer tells.
    const moreMs = Math.ceil(idleTimeoutMs + drainMs() - forMs)
    if (moreMs >= LEAST_DRAIN_MS) {
      this.#timer = this.#clock.setTimeout(() => this.#silent(forMs + moreMs), moreMs)
      return
    }
    this.fail(silence(forMs))
  }

  /** Ends the request with an error of ours. */
  fail(error: unknown): void {
    this.#abort.abort(error)
  }

  /** The reason it was ended for, if it was, instead of what the transport made of that. */
  explain(error: unknown): unknown {
    return this.#abort.signal.aborted ? this.#abort.signal.reason : error
  }

  /** Ends the watch. */
  stop(): void {
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer)
    this.#caller.removeEventListener('abort', this.#onCallerAbort)
  }
}
