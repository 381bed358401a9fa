import type { Clock, Logger, TimerHandle } from '@nexus/host'

const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS

/** A session that can sweep its root. */
export interface Sweeper {
  /** Fires when the session ends. */
  readonly signal: AbortSignal
  readonly logger: Logger
  sweep(): Promise<void>
}

/**
 * The sweeps of one root by the sessions that this process runs there. A sweep looks at every session of the root: if each
 * session made its own, a thousand would look a million times. One is made when the first session begins, then once a day,
 * and by a session that begins more than an hour after the last.
 */
export class SweepRounds {
  readonly #clock: Clock
  readonly #sweepers = new Set<Sweeper>()
  readonly #onEmpty: () => void
  #lastMs = Number.NEGATIVE_INFINITY
  #isSweeping = false
  #timer: TimerHandle | undefined

  /** @param onEmpty called when the last session has ended */
  constructor(clock: Clock, onEmpty: () => void) {
    this.#clock = clock
    this.#onEmpty = onEmpty
  }

  /** Takes part until the session ends. Never holds the process, never fails the session. */
  join(sweeper: Sweeper): void {
    if (sweeper.signal.aborted) return
    this.#sweepers.add(sweeper)
    sweeper.signal.addEventListener('abort', () => this.#leave(sweeper), { once: true })
    if (this.#clock.now() - this.#lastMs >= HOUR_MS) void this.#round()
  }

  #leave(sweeper: Sweeper): void {
    this.#sweepers.delete(sweeper)
    if (this.#sweepers.size > 0) return
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer)
    this.#onEmpty()
  }

  async #round(): Promise<void> {
    if (this.#isSweeping) return
    this.#isSweeping = true
    // Where a session ends in the middle of its sweep, the next one makes it.
    for (const sweeper of this.#sweepers) if (await this.#sweptBy(sweeper)) break
    this.#isSweeping = false
    if (this.#sweepers.size === 0) return
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer)
    this.#timer = this.#clock.setTimeout(() => void this.#round(), DAY_MS)
    this.#timer.unref()
  }

  async #sweptBy(sweeper: Sweeper): Promise<boolean> {
    try {
      await sweeper.sweep()
    } catch (error) {
      if (sweeper.signal.aborted) return false
      sweeper.logger.warn({ err: error }, 'old sessions could not be swept; trying again in a day')
    }
    this.#lastMs = this.#clock.now()
    return true
  }
}
