import { setMaxListeners } from 'node:events'
import type { Clock, TimerHandle } from '@nexus/objectstore'
import { GcsError } from '../errors.ts'

/** A shorter drain is within the patience that there is anyway. */
const LEAST_DRAIN_MS = 1_000

/**
 * One request under watch: it ends when the caller's signal fires, when nothing moves for too long, or when something of ours
 * breaks that its stream does not pass on.
 */
export class Attempt {
  readonly #abort = new AbortController()
  readonly #clock: Clock
  readonly #idleTimeoutMs: number
  readonly #caller: AbortSignal
  readonly #onCallerAbort: () => void
  readonly #op: string
  readonly #drainMs: () => number
  #timer: TimerHandle | undefined

  constructor(op: string, caller: AbortSignal, clock: Clock, idleTimeoutMs: number, drainMs: () => number) {
    this.#drainMs = drainMs
    this.#op = op
    this.#caller = caller
    this.#clock = clock
    this.#idleTimeoutMs = idleTimeoutMs
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
    this.#timer = this.#clock.setTimeout(() => this.#silent(this.#idleTimeoutMs), this.#idleTimeoutMs)
  }

  #silent(forMs: number): void {
    // What was handed over may still be on its way: only the answer tells.
    const moreMs = Math.ceil(this.#idleTimeoutMs + this.#drainMs() - forMs)
    if (moreMs >= LEAST_DRAIN_MS) {
      this.#timer = this.#clock.setTimeout(() => this.#silent(forMs + moreMs), moreMs)
      return
    }
    const message = `${this.#op} got no answer: nothing moved for ${forMs / 1000} s`
    this.fail(new GcsError(this.#op, message, { kind: 'network', code: undefined, sent: true }))
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
