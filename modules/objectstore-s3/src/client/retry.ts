import { setTimeout as sleep } from 'node:timers/promises'
import type { ErrorClass } from '@nexus/objectstore'
import { classifyS3Error } from '../errors.ts'

const BASE_MS = 100
const THROTTLED_BASE_MS = 500
const LONGEST_MS = 5_000

/**
 * Repeats what the SDK can't: transfers whose body is a stream, and downloads that end in the middle. Waits longer after each
 * temporary failure, by chance between nothing and the double of the last time; other failures are thrown at once.
 *
 * @param attempt counted from 1
 */
export async function withRetries<T>(
  { attempts, signal }: { attempts: number; signal?: AbortSignal | undefined },
  run: (attempt: number) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run(attempt)
    } catch (error) {
      signal?.throwIfAborted()
      const known = classifyS3Error(error)
      if (attempt >= attempts || (known !== 'temporary' && known !== 'throttled')) throw error
      await pause(delayMs(known, attempt), signal)
    }
  }
}

function delayMs(known: ErrorClass, attempt: number): number {
  const base = known === 'throttled' ? THROTTLED_BASE_MS : BASE_MS
  return Math.random() * Math.min(base * 2 ** attempt, LONGEST_MS)
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(ms, undefined, signal === undefined ? {} : { signal })
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  }
}
