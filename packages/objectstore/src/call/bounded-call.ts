import { setMaxListeners } from 'node:events'
import type { Clock } from '@nexus/host'
import type { Deadlines } from './limits.ts'
import { type WatchedCall, Watchdog } from './watchdog.ts'
import type { OpOptions, Progress } from '../driver.ts'

/** What every call accepts besides its arguments. */
export interface CallOptions {
  /** Ends the call, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
  /** Told of what moves, with totals of this call. */
  onProgress?: ((progress: Progress) => void) | undefined
}

/** How one driver call is bounded. */
export interface CallBounds {
  clock: Clock
  deadlines: Deadlines
  call: WatchedCall
  options: CallOptions
  /** The error of a call that ran out of time. */
  timedOut: (problem: string) => Error
  /** Turns what the driver threw into what the caller sees. */
  wrap: (error: unknown) => Error
}

/** A driver call under way. */
export interface BoundedCall<T> {
  /** Settles exactly once, and in bounded time. */
  promise: Promise<T>
  /** Tells the driver to stop, and the caller why. */
  stop(reason: unknown): void
}

/**
 * Runs a driver call against its deadline and the caller's signal. A call that is stopped settles as soon as the driver is
 * done, so that nothing is written behind the caller's back, or when the grace is over. What a driver does after that is
 * swallowed.
 */
export function startBoundedCall<T>(bounds: CallBounds, invoke: (each: OpOptions) => Promise<T>): BoundedCall<T> {
  const { clock, deadlines, options } = bounds
  const { promise, resolve, reject } = withResolvers<T>()
  const abort = new AbortController()
  // A driver listens once per part it sends, and a caller has many calls under one signal: more than ten is no leak.
  setMaxListeners(0, abort.signal, ...(options.signal === undefined ? [] : [options.signal]))
  let stopped: { reason: unknown; byDeadline: boolean } | undefined
  let grace: ReturnType<Clock['setTimeout']> | undefined
  let settled = false

  const settle = (finish: () => void): void => {
    if (settled) return
    settled = true
    watchdog.stop()
    if (grace !== undefined) clock.clearTimeout(grace)
    options.signal?.removeEventListener('abort', onAbort)
    finish()
  }
  const halt = (reason: unknown, byDeadline: boolean): void => {
    if (settled || stopped !== undefined) return
    stopped = { reason, byDeadline }
    watchdog.stop()
    grace = clock.setTimeout(() => settle(() => reject(reason)), deadlines.graceMs)
    abort.abort(reason)
  }
  const onAbort = (): void => halt(options.signal?.reason, false)
  const onProgress = (progress: Progress): void => {
    if (settled || stopped !== undefined) return
    watchdog.progress(progress)
    options.onProgress?.(progress)
  }
  const watchdog = new Watchdog(clock, deadlines, bounds.call, (problem) => halt(bounds.timedOut(problem), true))
  options.signal?.addEventListener('abort', onAbort, { once: true })

  // Async, so that a driver that throws instead of rejecting is treated like one that rejects.
  const onWait = (): (() => void) => watchdog.wait()
  const run = async (): Promise<T> => invoke({ signal: abort.signal, onProgress, onWait })
  run().then(
    // Work that is done by the end of the grace is done; only the wish to stop, of the caller's or of close, outranks it.
    (value) => settle(() => (stopped === undefined || stopped.byDeadline ? resolve(value) : reject(stopped.reason))),
    (error: unknown) => settle(() => reject(stopped === undefined ? bounds.wrap(error) : stopped.reason)),
  )
  return { promise, stop: (reason) => halt(reason, false) }
}

interface Resolvers<T> {
  promise: Promise<T>
  resolve: (value: T) => void
  reject: (reason: unknown) => void
}

function withResolvers<T>(): Resolvers<T> {
  let resolve!: Resolvers<T>['resolve']
  let reject!: Resolvers<T>['reject']
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}
