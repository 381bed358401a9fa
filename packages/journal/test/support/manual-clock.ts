import type { Clock, TimerHandle } from '@nexus/host'

interface ManualTimer extends TimerHandle {
  at: number
  callback: () => void
}

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #now = Date.UTC(2026, 10, 29, 16, 34, 12, 123)
  readonly #timers = new Set<ManualTimer>()

  get pending(): number {
    return this.#timers.size
  }

  /** How long until the next timer fires, in milliseconds; Infinity when there is none. */
  get nextInMs(): number {
    return Math.min(Infinity, ...[...this.#timers].map(({ at }) => at - this.#now))
  }

  now(): number {
    return this.#now
  }

  setTimeout(callback: () => void, delayMs: number): TimerHandle {
    const timer: ManualTimer = { at: this.#now + delayMs, callback, unref: () => timer }
    this.#timers.add(timer)
    return timer
  }

  clearTimeout(handle: TimerHandle): void {
    this.#timers.delete(handle as ManualTimer)
  }

  /** Moves on, firing due timers in order. */
  advance(ms: number): void {
    const until = this.#now + ms
    for (;;) {
      const due = [...this.#timers].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at)[0]
      if (!due) break
      this.#timers.delete(due)
      this.#now = Math.max(this.#now, due.at)
      due.callback()
    }
    this.#now = until
  }
}
