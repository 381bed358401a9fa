import type { Clock, TimerHandle } from '../src/clock.ts'

interface Timer extends TimerHandle {
  readonly dueMs: number
  readonly callback: () => void
}

/** A clock that a test moves by hand; timers fire in due order while it moves. */
export class ManualClock implements Clock {
  #nowMs: number
  readonly #timers = new Set<Timer>()

  constructor(startMs: number = Date.UTC(2026, 10, 29, 16, 34, 12)) {
    this.#nowMs = startMs
  }

  get pendingTimers(): number {
    return this.#timers.size
  }

  now(): number {
    return this.#nowMs
  }

  setTimeout(callback: () => void, delayMs: number): TimerHandle {
    const timer: Timer = { dueMs: this.#nowMs + delayMs, callback, unref: () => undefined }
    this.#timers.add(timer)
    return timer
  }

  clearTimeout(handle: TimerHandle): void {
    this.#timers.delete(handle as Timer)
  }

  /** Moves on, and lets what the timers started run as far as it gets without waiting for real. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms
    for (;;) {
      const [next] = [...this.#timers].filter(({ dueMs }) => dueMs <= endMs).toSorted((a, b) => a.dueMs - b.dueMs)
      if (next === undefined) break
      this.#timers.delete(next)
      this.#nowMs = Math.max(this.#nowMs, next.dueMs)
      next.callback()
      await settle()
    }
    this.#nowMs = endMs
    await settle()
  }
}

/** Lets every promise that can settle settle. */
export function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
