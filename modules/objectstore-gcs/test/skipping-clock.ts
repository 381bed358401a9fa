import type { Clock, TimerHandle } from '@nexus/objectstore'

/** Its patience with silence, tokens and opening is this or more; waits between attempts are drawn, and never whole. */
const HELD_FROM_MS = 5_000

interface Held extends TimerHandle {
  delayMs: number
  callback: () => void
}

/**
 * A clock on which waiting between attempts takes no time: a short timer moves the clock and fires at once. Long ones are
 * held until a test lets them expire.
 */
export class SkippingClock implements Clock {
  #nowMs = Date.UTC(2026, 0, 1)
  readonly #held = new Set<Held>()
  readonly #short = new Set<TimerHandle>()

  /** Called instead of ending the wait, when somebody begins to wait between attempts. */
  onPause: (() => void) | undefined

  now(): number {
    return this.#nowMs
  }

  setTimeout(callback: () => void, delayMs: number): TimerHandle {
    const handle: Held = { delayMs, callback, unref: () => handle }
    if (delayMs >= HELD_FROM_MS && Number.isInteger(delayMs)) {
      this.#held.add(handle)
      return handle
    }
    this.#nowMs += delayMs
    this.#short.add(handle)
    setImmediate(() => {
      if (this.onPause !== undefined) this.onPause()
      else if (this.#short.delete(handle)) callback()
    })
    return handle
  }

  clearTimeout(handle: TimerHandle): void {
    this.#held.delete(handle as Held)
    this.#short.delete(handle)
  }

  /** Lets the held timers of this delay expire; gives how many there were. */
  expire(delayMs: number): number {
    const due = [...this.#held].filter((each) => each.delayMs === delayMs)
    for (const each of due) {
      this.#held.delete(each)
      each.callback()
    }
    return due.length
  }
}
