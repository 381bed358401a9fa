import type { Clock, TimerHandle } from '@nexus/host'

/** Short waits (retries, the write buffer) end at once; long ones, which are deadlines, take as long as they say. */
export const hurriedClock: Clock = {
  now: () => Date.now(),
  setTimeout: (callback, delayMs) => setTimeout(callback, delayMs <= 2000 ? 0 : delayMs),
  clearTimeout: (handle: TimerHandle) => clearTimeout(handle as NodeJS.Timeout),
}
