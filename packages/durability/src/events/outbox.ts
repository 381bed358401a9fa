import type { Clock, Logger } from '@nexus/host'
import type { DurabilityEvents, DurabilityEventType, Tell } from './table.ts'

/**
 * Events on their way to their listeners. What happens is posted at once, in order; it goes out when the poster says so: never
 * while a snapshot holds the slot, and not before the journal runs and plugins are up.
 *
 * @see docs/concepts/durability.md
 */
export class EventOutbox {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #waitMs: number
  #tell: Tell | undefined
  #posted: (() => Promise<void>)[] = []
  readonly #flushing = new Set<Promise<void>>()

  /** @param waitMs how long {@link flush} waits for the handlers of one event */
  constructor({ clock, logger, waitMs }: { clock: Clock; logger: Logger; waitMs: number }) {
    this.#clock = clock
    this.#logger = logger
    this.#waitMs = waitMs
  }

  post<T extends DurabilityEventType>(type: T, payload: DurabilityEvents[T]): void {
    this.#posted.push(() => this.#emit(type, payload))
  }

  /** From here on {@link flush} emits. */
  open(tell: Tell): void {
    this.#tell = tell
  }

  /** Drops what waits and everything to come: the run is over. */
  close(): void {
    this.#tell = undefined
    this.#posted = []
  }

  /** Emits what was posted, in order, and waits for the handlers, each for a bounded time. Never rejects. */
  async flush(): Promise<void> {
    if (this.#tell === undefined) return
    const flushing = this.#emitAll(this.#posted.splice(0))
    this.#flushing.add(flushing)
    await flushing
    this.#flushing.delete(flushing)
  }

  /** Emits what was posted, and waits for every flush that is under way. */
  async settled(): Promise<void> {
    await this.flush()
    await Promise.all(this.#flushing)
  }

  async #emitAll(posted: readonly (() => Promise<void>)[]): Promise<void> {
    for (const emit of posted) await emit()
  }

  async #emit<T extends DurabilityEventType>(type: T, payload: DurabilityEvents[T]): Promise<void> {
    const tell = this.#tell
    if (tell === undefined) return
    const emitted = tell(type, payload)
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
