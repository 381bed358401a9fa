import type { Clock, TimerHandle } from '../../src/clock.ts'

interface Timer extends TimerHandle {
  dueMs: number
  callback: () => void
  held: boolean
}

/** A clock that stands still until it is moved. */
export class ManualClock implements Clock {
  #nowMs: number
  readonly timers: Set<Timer> = new Set()

  constructor(nowMs: number = Date.UTC(2026, 10, 29, 12)) {
    this.#nowMs = nowMs
  }

  now(): number {
    return this.#nowMs
  }

  setTimeout(callback: () => void, delayMs: number): TimerHandle {
    const timer: Timer = {
      dueMs: this.#nowMs + delayMs,
      callback,
      held: true,
      unref: () => {
        timer.held = false
      },
    }
    this.timers.add(timer)
    return timer
  }

  clearTimeout(handle: TimerHandle): void {
    this.timers.delete(handle as Timer)
  }

  /** Moves time and runs what is due on the way, in order. */
  advance(byMs: number): void {
    const endMs = this.#nowMs + byMs
    for (;;) {
      const [next] = [...this.timers].filter(({ dueMs }) => dueMs <= endMs).toSorted((a, b) => a.dueMs - b.dueMs)
      if (next === undefined) break
      this.timers.delete(next)
      this.#nowMs = next.dueMs
      next.callback()
    }
    this.#nowMs = endMs
  }
}
