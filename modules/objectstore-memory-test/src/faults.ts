import { NexusError } from '@nexus/objectstore'

/** A method of the backend, as the call log names it. */
export type Op = 'hydrate' | 'put' | 'delete' | 'list' | 'flush' | 'get' | 'putIfAbsent' | 'listNames'

/** One call the store has seen. */
export interface Call {
  /** 1 for the first call this backend ever got. */
  index: number
  op: Op
  /** The store-relative key or prefix; empty for `flush`. */
  key: string
}

/** Picks calls. */
export type CallPredicate = (call: Call) => boolean

/** Where delays take their timers from. */
export interface FaultClock {
  setTimeout(callback: () => void, delayMs: number): { unref(): unknown }
  clearTimeout(handle: { unref(): unknown }): void
}

interface Rule {
  matches: CallPredicate
  act: (call: Call, signal: AbortSignal | undefined) => Promise<void>
}

/**
 * The faults of one memory backend, and the log of its calls. Faults are looked at when a call starts, in the order they
 * were added; call numbers count from the backend's first call, so a scenario can be counted once and then be run again
 * with each of its calls failing.
 */
export class Faults {
  /** Every call so far, oldest first. */
  readonly calls: Call[] = []
  #rules: Rule[] = []
  #lostAnswers = new Map<number, unknown>()
  #deadAfter = Infinity
  readonly #clock: FaultClock

  constructor(clock: FaultClock) {
    this.#clock = clock
  }

  /** Call `n` rejects with the error and does nothing. */
  failNth(n: number, error: unknown = outage()): void {
    this.failWhen(({ index }) => index === n, error)
  }

  /** Every call the predicate picks rejects with the error and does nothing. */
  failWhen(predicate: CallPredicate, error: unknown = outage()): void {
    this.#rules.push({ matches: predicate, act: () => Promise.reject(error) })
  }

  /** Every call waits so many milliseconds first; a function picks per call, 0 for no delay. An abort ends the wait. */
  delay(ms: number | ((call: Call) => number)): void {
    const delayOf = typeof ms === 'number' ? () => ms : ms
    this.#rules.push({
      matches: (call) => delayOf(call) > 0,
      act: (call, signal) => this.#wait(delayOf(call), signal),
    })
  }

  /**
   * Calls the predicate picks do nothing and never answer: a store that accepts and stays silent. They end when their
   * signal fires, as an SDK's would; with `ignoreSignal` not even then.
   */
  hang(predicate: CallPredicate = () => true, { ignoreSignal = false }: { ignoreSignal?: boolean } = {}): void {
    this.#rules.push({ matches: predicate, act: (_call, signal) => never(ignoreSignal ? undefined : signal) })
  }

  /**
   * Call `n` takes effect, and then its answer is lost: it rejects with the error. A lost answer of `putIfAbsent` rejects
   * with `OUTCOME_UNKNOWN`.
   */
  applyThenFail(n: number, error?: unknown): void {
    this.#lostAnswers.set(n, error)
  }

  /** Calls with a number above `n` do nothing and never answer, as if the store, or the way to it, were gone. */
  dieAfter(n: number): void {
    this.#deadAfter = n
  }

  /** Takes all faults away. The log stays. */
  heal(): void {
    this.#rules = []
    this.#lostAnswers.clear()
    this.#deadAfter = Infinity
  }

  /** For the backend: logs a call, meets its faults, and only then runs it. */
  async run<T>(op: Op, key: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    signal?.throwIfAborted()
    const call: Call = { index: this.calls.length + 1, op, key }
    this.calls.push(call)
    if (call.index > this.#deadAfter) await never(signal)
    if (this.#rules.length > 0) {
      for (const rule of this.#rules) if (rule.matches(call)) await rule.act(call, signal)
    }
    const answer = await work()
    if (this.#lostAnswers.has(call.index)) throw lostAnswer(call, this.#lostAnswers.get(call.index))
    return answer
  }

  #wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#clock.clearTimeout(timer)
        reject(signal?.reason)
      }
      const timer = this.#clock.setTimeout(() => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      }, ms)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }
}

function never(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

function outage(): Error {
  return Object.assign(new Error('injected outage'), { errorClass: 'temporary' })
}

function lostAnswer(call: Call, error: unknown): unknown {
  if (error !== undefined) return error
  if (call.op !== 'putIfAbsent') return Object.assign(new Error('injected: connection reset'), { code: 'ECONNRESET' })
  const message = `the answer to putIfAbsent of "${call.key}" was lost`
  return new NexusError('OUTCOME_UNKNOWN', message, { op: 'objectstore.putIfAbsent', key: call.key })
}
