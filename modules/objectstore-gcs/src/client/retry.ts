import type { Clock } from '@nexus/objectstore'
import { GcsError, isRetryable } from '../errors.ts'

/** How failures are retried. */
export interface RetryPolicy {
  clock: Clock
  /** Failures in a row are retried for so long. */
  retryTimeoutMs: number
}

const FIRST_WAIT_MS = 250
const LONGEST_WAIT_MS = 4_000

/**
 * Repeats an attempt while it fails in ways that pass. The patience counts from the first failure in a row: an attempt that
 * got further than the one before begins a new row.
 *
 * @param progress a number that grows as attempts get further
 * @throws what the last attempt threw; the signal's reason once it has fired
 */
export async function withRetries<T>(
  policy: RetryPolicy,
  signal: AbortSignal,
  attempt: () => Promise<T>,
  progress: () => number = () => 0,
): Promise<T> {
  let failures = 0
  let sinceMs = 0
  let reached = progress()
  for (;;) {
    signal.throwIfAborted()
    try {
      return await attempt()
    } catch (error) {
      signal.throwIfAborted()
      if (!isRetryable(error)) throw error
      const nowMs = policy.clock.now()
      if (failures === 0 || progress() > reached) [failures, sinceMs, reached] = [0, nowMs, progress()]
      const waitMs = waitOf(error, failures++)
      if (nowMs + waitMs - sinceMs > policy.retryTimeoutMs) throw error
      await pause(policy.clock, waitMs, signal)
    }
  }
}

function waitOf(error: unknown, failures: number): number {
  const wishMs = error instanceof GcsError ? (error.retryAfterMs ?? 0) : 0
  const backoffMs = Math.min(FIRST_WAIT_MS * 2 ** failures, LONGEST_WAIT_MS)
  // Spread, so that clients that failed together do not come back together.
  return Math.max(wishMs, backoffMs * (0.75 + Math.random() / 2))
}

/** Resolves after a while, rejects with the signal's reason when it fires. */
export async function pause(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const onAbort = (): void => {
      clock.clearTimeout(timer)
      reject(signal.reason as Error)
    }
    const timer = clock.setTimeout(() => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    }, delayMs)
    signal.addEventListener('abort', onAbort, { once: true })
  })
}
