import { closeSync, openSync, readSync } from 'node:fs'

const INTERVAL_MS = 1
// Of the main thread: nanoseconds on a CPU, nanoseconds ready to run but not running, and a count.
const SCHEDULER_FILE = '/proc/self/schedstat'
const NS_PER_MS = 1_000_000

/** A value and how long the event loop was blocked at most while it came about, in milliseconds. */
export interface Stalled<T> {
  value: T
  stallMs: number
}

/**
 * Runs `work` beside a timer of one millisecond. The longest gap between two of its ticks, less that millisecond, is the
 * time for which nothing else in the process could run. Time for which the thread was ready but other processes had the
 * CPUs is taken off where the kernel tells it.
 */
export async function withStall<T>(work: () => T | Promise<T>): Promise<Stalled<T>> {
  const scheduler = new SchedulerWait()
  let last = performance.now()
  let lastWaitMs = scheduler.totalMs()
  let longestMs = 0
  const note = (): void => {
    const now = performance.now()
    const waitMs = scheduler.totalMs()
    longestMs = Math.max(longestMs, now - last - (waitMs - lastWaitMs))
    last = now
    lastWaitMs = waitMs
  }
  const timer = setInterval(note, INTERVAL_MS)
  try {
    const value = await work()
    note()
    return { value, stallMs: Math.max(0, longestMs - INTERVAL_MS) }
  } finally {
    clearInterval(timer)
    scheduler.close()
  }
}

/** How long this thread has waited for a CPU in all; always 0 where the system doesn't say. */
class SchedulerWait {
  readonly #fd: number | undefined = openIfThere(SCHEDULER_FILE)
  readonly #buffer = Buffer.alloc(96)

  totalMs(): number {
    if (this.#fd === undefined) return 0
    const length = readSync(this.#fd, this.#buffer, 0, this.#buffer.length, 0)
    return Number(this.#buffer.toString('latin1', 0, length).split(' ')[1] ?? 0) / NS_PER_MS
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
  }
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r')
  } catch {
    return undefined
  }
}
