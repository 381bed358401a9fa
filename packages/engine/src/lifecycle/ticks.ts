import type { EventBus } from '../bus/event-bus.ts'
import type { Clock, TimerHandle } from '@nexus/host'

/** Emits `core.tick` at a steady interval until stopped. Never holds the process. */
export class Ticks {
  readonly #bus: EventBus
  readonly #clock: Clock
  readonly #intervalMs: number
  #sequence = 0
  #timer: TimerHandle | undefined

  constructor(bus: EventBus, clock: Clock, intervalMs: number) {
    this.#bus = bus
    this.#clock = clock
    this.#intervalMs = intervalMs
  }

  start(): void {
    this.#timer = this.#clock.setTimeout(() => {
      this.#sequence += 1
      const time = new Date(this.#clock.now()).toISOString()
      // The next tick is due after this one was taken: a slow subscriber thins the ticks out instead of piling them up.
      void this.#bus.emit('core.tick', { _schema_version: 1, sequence: this.#sequence, time }).finally(() => {
        if (this.#timer !== undefined) this.start()
      })
    }, this.#intervalMs)
    this.#timer.unref()
  }

  stop(): void {
    if (this.#timer === undefined) return
    this.#clock.clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
