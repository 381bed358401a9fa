/** A pending timer. `unref` lets the process end before it fires. */
export interface TimerHandle {
  unref(): unknown
}

/** Where the engine takes time from, so that tests can move it by hand. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number
  setTimeout(callback: () => void, delayMs: number): TimerHandle
  clearTimeout(handle: TimerHandle): void
}

/** The clock of this machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout: (callback, delayMs) => setTimeout(callback, delayMs),
  clearTimeout: (handle) => clearTimeout(handle as NodeJS.Timeout),
}

/** `20261129T163412123Z`: a time that sorts and is safe in a file name. */
export function fileTimestamp(ms: number): string {
  return new Date(ms).toISOString().replaceAll(/[-:.]/g, '')
}
