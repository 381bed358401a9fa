import type { Clock, TimerHandle } from '@nexus/host'

class Timer implements TimerHandle {
  readonly dueMs: number
  readonly fire: () => void
  #real: NodeJS.Timeout | undefined
  #holds = true

  constructor(dueMs: number, fire: () => void) {
    this.dueMs = dueMs
    this.fire = fire
  }

  unref(): void {
    this.#holds = false
    this.#real?.unref()
  }

  arm(delayMs: number): void {
    clearTimeout(this.#real)
    this.#real = setTimeout(this.fire, delayMs)
    if (!this.#holds) this.#real.unref()
  }

  disarm(): void {
    clearTimeout(this.#real)
  }
}

/** The clock of a machine that may be wrong, and that can be made to jump: then what is due happens at once. */
export class SkippingClock implements Clock {
  readonly #timers = new Set<Timer>()
  #aheadMs = 0

  now(): number {
    return Date.now() + this.#aheadMs
  }

  setTimeout(callback: () => void, delayMs: number): TimerHandle {
    const timer = new Timer(this.now() + delayMs, () => {
      this.#timers.delete(timer)
      callback()
    })
    this.#timers.add(timer)
    timer.arm(delayMs)
    return timer
  }

  clearTimeout(handle: TimerHandle): void {
    if (!(handle instanceof Timer)) return
    handle.disarm()
    this.#timers.delete(handle)
  }

  /** Lets time pass: timers that are due by then fire now, others so much earlier. */
  skip(ms: number): void {
    this.#aheadMs += ms
    for (const timer of [...this.#timers].toSorted((a, b) => a.dueMs - b.dueMs)) {
      if (timer.dueMs > this.now()) timer.arm(timer.dueMs - this.now())
      else if (this.#timers.has(timer)) {
        timer.disarm()
        timer.fire()
      }
    }
  }

  /** Sets the clock; no time passes by that. */
  setAhead(ms: number): void {
    this.#aheadMs = ms
  }
}
