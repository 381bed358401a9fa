import type { Clock, TimerHandle } from '../time/clock.ts'

interface Timer extends TimerHandle {
  readonly dueMs: number
  readonly callback: () => void
  /** Keeps the process alive until it is unref'd. */
  held: boolean
}

/** A clock that a test moves by hand; timers fire in due order while it moves. */
export class ManualClock implements Clock {
  #nowMs: number
  readonly timers: Set<Timer> = new Set()

  constructor(startMs: number = Date.UTC(2026, 10, 29, 16, 34, 12)) {
    this.#nowMs = startMs
  }

  get pendingTimers(): number {
    return this.timers.size
  }

  now(): number {
    return this.#nowMs
  }

  setTimeout(callback: () => void, delayMs: number): TimerHandle {
    const timer: Timer = { dueMs: this.#nowMs + delayMs, callback, held: true, unref: () => (timer.held = false) }
    this.timers.add(timer)
    return timer
  }

  clearTimeout(handle: TimerHandle): void {
    this.timers.delete(handle as Timer)
  }

  /** Moves on, and lets what the timers started run as far as it gets without waiting for real. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms
    while (this.#fireNext(endMs)) await settle()
    this.#nowMs = endMs
    await settle()
  }

  /** Moves on at once: what the timers started runs later. */
  advanceNow(ms: number): void {
    const endMs = this.#nowMs + ms
    while (this.#fireNext(endMs)) continue
    this.#nowMs = endMs
  }

  #fireNext(endMs: number): boolean {
    const [next] = [...this.timers].filter(({ dueMs }) => dueMs <= endMs).toSorted((a, b) => a.dueMs - b.dueMs)
    if (next === undefined) return false
    this.timers.delete(next)
    this.#nowMs = Math.max(this.#nowMs, next.dueMs)
    next.callback()
    return true
  }
}

/** Lets every promise that can settle settle. */
export function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
