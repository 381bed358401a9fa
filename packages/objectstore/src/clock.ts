/** A pending timer. */
export interface TimerHandle {
  unref(): unknown
}

/** Where deadlines take their timers from, so that tests can move time by hand. */
export interface Clock {
  /** Milliseconds. */
  now(): number
  setTimeout(callback: () => void, delayMs: number): TimerHandle
  clearTimeout(handle: TimerHandle): void
}

/** The timers of this process. */
export const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout: (callback, delayMs) => setTimeout(callback, delayMs),
  clearTimeout: (handle) => clearTimeout(handle as NodeJS.Timeout),
}
