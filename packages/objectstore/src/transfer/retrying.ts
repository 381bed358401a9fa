import { type Clock, systemClock } from '@nexus/host'
import type { ErrorClass, OpOptions } from '../driver.ts'
import type { Gate } from './gate.ts'
import { pause } from './waiting.ts'

/** How {@link retrying} repeats. */
export interface RetryOptions {
  /** Attempts in a row that may fail, at least 1. Default 5. An attempt that got further than the last begins a new row. */
  attempts?: number
  /** Failures in a row are repeated for at most so long, however many attempts are left. Default: as long as the signal lets. */
  patienceMs?: number
  /** How far the work has got, as a number that grows; for work that goes on where it broke. */
  reached?: () => number
  /** The wait that the store asked for, read from its error. Default: the number `retryAfterMs` of the error or of a cause. */
  retryAfterMs?: (error: unknown) => number | undefined
  /** Each attempt waits for its turn in it; the pauses between hold none. */
  gate?: Gate
  /** Told of the pauses between attempts: they are waiting, not silence. */
  onWait?: OpOptions['onWait'] | undefined
  clock?: Clock
  /** From 0 to 1, for tests. */
  random?: () => number
}

const FIRST_MS = 200
const FIRST_THROTTLED_MS = 1_000
const LONGEST_MS = 10_000
/** A store may ask for hours; a caller that waits so long is better told. */
const LONGEST_ASKED_MS = 60_000

/**
 * Repeats work that fails in a way that passes: errors that `classify` calls temporary or throttled. The pause is drawn
 * between nothing and a bound that doubles (full jitter, so that clients that failed together don't come back together),
 * and is at least what the store asked for. Other errors, and the last one, are thrown as they are.
 *
 * @param run gets the number of the attempt, from 1
 * @throws what the last attempt threw; the signal's reason once it has fired
 */
export async function retrying<T>(
  classify: (error: unknown) => ErrorClass | undefined,
  run: (attempt: number) => Promise<T>,
  signal: AbortSignal | undefined,
  options: RetryOptions = {},
): Promise<T> {
  const { attempts = 5, patienceMs = Infinity, reached = () => 0, clock = systemClock, random = Math.random } = options
  const { onWait } = options
  const waiter = { ...(signal === undefined ? {} : { signal }), ...(onWait === undefined ? {} : { onWait }) }
  let failures = 0
  let sinceMs = 0
  let furthest = reached()
  for (let attempt = 1; ; attempt++) {
    try {
      const leave = await options.gate?.enter(1, waiter)
      try {
        return await run(attempt)
      } finally {
        leave?.()
      }
    } catch (error) {
      signal?.throwIfAborted()
      const known = classify(error)
      if (known !== 'temporary' && known !== 'throttled') throw error
      if (failures === 0 || reached() > furthest) [failures, sinceMs, furthest] = [0, clock.now(), reached()]
      failures++
      const askedMs = (options.retryAfterMs ?? retryAfterOf)(error) ?? 0
      const bound = (known === 'throttled' ? FIRST_THROTTLED_MS : FIRST_MS) * 2 ** (failures - 1)
      const waitMs = Math.max(askedMs, random() * Math.min(bound, LONGEST_MS))
      const tooLong = waitMs > LONGEST_ASKED_MS || clock.now() + waitMs - sinceMs > patienceMs
      if (failures >= attempts || tooLong) throw error
      const resume = onWait?.()
      try {
        await pause(waitMs, signal, clock)
      } finally {
        resume?.()
      }
    }
  }
}

/**
 * The milliseconds of a `Retry-After` header: seconds or a date. Undefined for anything else.
 *
 * @param nowMs since the epoch
 */
export function parseRetryAfter(header: string | null | undefined, nowMs: number): number | undefined {
  const text = header?.trim() ?? ''
  if (/^\d+$/.test(text)) return Number(text) * 1000
  // Only the form that HTTP defines: Date.parse takes nearly anything for a date.
  const atMs = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} .* GMT$/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs)
}

function retryAfterOf(error: unknown): number | undefined {
  let current: unknown = error
  for (let depth = 0; depth < 8 && current instanceof Error; depth++) {
    const { retryAfterMs } = current as { retryAfterMs?: unknown }
    if (typeof retryAfterMs === 'number' && retryAfterMs >= 0) return retryAfterMs
    current = current.cause
  }
  return undefined
}
