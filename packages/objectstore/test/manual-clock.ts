import type { Clock, TimerHandle } from '@nexus/host'

interface Timer extends TimerHandle {
  at: number
  callback: () => void
}

/** A clock that stands still until it is moved. */
export class ManualClock implements Clock {
  #now = 0
  readonly #timers = new Set<Timer>()

  now(): number {
    return this.#now
  }

  setTimeout(callback: () => void, delayMs: number): TimerHandle {
    const timer: Timer = { at: this.#now + delayMs, callback, unref: () => undefined }
    this.#timers.add(timer)
    return timer
  }

  clearTimeout(handle: TimerHandle): void {
    this.#timers.delete(handle as Timer)
  }

  /** Timers that have neither fired nor been cleared. */
  get pending(): number {
    return this.#timers.size
  }

  /** Moves time, firing what falls due in order, and lets promises settle after each. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      await settle()
      const due = [...this.#timers].filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at)[0]
      if (due === undefined) break
      this.#now = Math.max(this.#now, due.at)
      this.#timers.delete(due)
      due.callback()
    }
    this.#now = end
    await settle()
  }
}

/** Lets everything that is ready run. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
