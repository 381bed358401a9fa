import type { Clock } from '@nexus/host'
import type { NexusEvent } from './event.ts'

/** The events whose dispatch hasn't finished. Synchronous dispatches never come here. */
export class PendingEvents {
  readonly #events = new Set<NexusEvent>()
  readonly #waiting = new Set<() => void>()

  get size(): number {
    return this.#events.size
  }

  /** Counts the event as pending until the promise settles; gives a promise that settles alike, just after. */
  async track(event: NexusEvent, rest: Promise<void>): Promise<void> {
    this.#events.add(event)
    try {
      await rest
    } finally {
      this.#events.delete(event)
      if (this.#events.size === 0) for (const wake of this.#waiting) wake()
    }
  }

  /** True once nothing is pending; false when `timeoutMs` passed first. */
  idle(clock: Clock, timeoutMs: number): Promise<boolean> {
    if (this.#events.size === 0) return Promise.resolve(true)
    return new Promise((resolve) => {
      const finish = (idle: boolean): void => {
        this.#waiting.delete(wake)
        clock.clearTimeout(timer)
        resolve(idle)
      }
      const wake = (): void => finish(true)
      const timer = clock.setTimeout(() => finish(false), timeoutMs)
      this.#waiting.add(wake)
    })
  }

  /** Distinct types of what is pending, at most `limit`. */
  types(limit: number): string[] {
    return [...new Set([...this.#events].map((event) => event.type))].slice(0, limit)
  }
}
