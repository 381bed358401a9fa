import type { EventBus } from '../bus/event-bus.ts'
import type { EventMap, EventType } from '../bus/event-map.ts'
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'

/** The part of the event bus that the durability layer uses. */
export type DurabilityBus = Pick<EventBus, 'emit' | 'subscribe'>

/** The `source` of everything that the durability layer emits, and of its subscriptions. */
export const DURABILITY_SOURCE = 'core.object_store'

/**
 * Events on their way to the bus. What happens is posted at once, in order; it goes out when the poster says so: never
 * while a snapshot holds the slot, and not before the journal runs and plugins are up.
 *
 * @see spec 10, Lifecycle
 */
export class EventOutbox {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #waitMs: number
  #bus: Pick<DurabilityBus, 'emit'> | undefined
  #posted: (() => Promise<void>)[] = []

  /** @param waitMs how long {@link flush} waits for the handlers of one event */
  constructor({ clock, logger, waitMs }: { clock: Clock; logger: Logger; waitMs: number }) {
    this.#clock = clock
    this.#logger = logger
    this.#waitMs = waitMs
  }

  post<T extends EventType>(type: T, payload: EventMap[T]): void {
    this.#posted.push(() => this.#emit(type, payload))
  }

  /** From here on {@link flush} emits. */
  open(bus: Pick<DurabilityBus, 'emit'>): void {
    this.#bus = bus
  }

  /** Drops what waits and everything to come: the run is over. */
  close(): void {
    this.#bus = undefined
    this.#posted = []
  }

  /** Emits what was posted, in order, and waits for the handlers, each for a bounded time. Never rejects. */
  async flush(): Promise<void> {
    if (this.#bus === undefined) return
    const posted = this.#posted
    this.#posted = []
    for (const emit of posted) await emit()
  }

  async #emit<T extends EventType>(type: T, payload: EventMap[T]): Promise<void> {
    const bus = this.#bus
    if (bus === undefined) return
    const emitted = bus.emit<EventType>(type, payload, { source: DURABILITY_SOURCE })
    await new Promise<void>((resolve) => {
      const timer = this.#clock.setTimeout(() => {
        this.#logger.warn({ event: type, waited_ms: this.#waitMs }, 'a handler has not settled; going on without it')
        resolve()
      }, this.#waitMs)
      emitted
        .catch((error: unknown) => this.#logger.debug({ err: error, event: type }, 'an event found the bus closed'))
        .finally(() => {
          this.#clock.clearTimeout(timer)
          resolve()
        })
    })
  }
}
