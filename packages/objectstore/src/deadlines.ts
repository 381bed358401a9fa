import type { Clock, TimerHandle } from './clock.ts'
import type { Progress } from './driver.ts'

/** How long a call may take. All constants in production; tests inject smaller ones, or a clock. */
export interface Deadlines {
  /** Longest silence of a driver that has reported progress in this call. */
  idleMs: number
  /** Ceiling of a call that moves nothing. */
  baseMs: number
  /** Slowest rate that is still accepted: the ceiling grows by a second for so many bytes. */
  bytesPerSecond: number
  /** What the ceiling grows by for each object of a call about many. */
  perObjectMs: number
  /** How long a driver that was told to stop is waited for, so that it is not still writing when the caller goes on. */
  graceMs: number
}

/** What production runs with. */
export const DEFAULT_DEADLINES: Readonly<Deadlines> = {
  idleMs: 30_000,
  baseMs: 30_000,
  bytesPerSecond: 1024 * 1024,
  perObjectMs: 250,
  graceMs: 1_000,
}

/**
 * Watches one call: fires once, when the driver was silent too long or the ceiling is reached. The ceiling grows with what
 * was announced and with what was moved, whichever is more. It counts in timers, not in clock readings, so a clock that is
 * set in the middle changes nothing.
 */
export class Watchdog {
  readonly #clock: Clock
  readonly #deadlines: Deadlines
  readonly #expected: Progress
  readonly #onExpired: (problem: string) => void
  #moved: Progress = { objects: 0, bytes: 0 }
  #idle: TimerHandle | undefined
  #ceiling: TimerHandle | undefined
  #elapsedMs = 0

  constructor(clock: Clock, deadlines: Deadlines, expected: Progress, onExpired: (problem: string) => void) {
    this.#clock = clock
    this.#deadlines = deadlines
    this.#expected = expected
    this.#onExpired = onExpired
    this.#armCeiling()
  }

  /** Notes the driver's totals. Totals that did not grow are no progress. */
  progress({ objects, bytes }: Progress): void {
    if (!(objects > this.#moved.objects) && !(bytes > this.#moved.bytes)) return
    this.#moved = { objects: Math.max(objects, this.#moved.objects), bytes: Math.max(bytes, this.#moved.bytes) }
    if (this.#idle !== undefined) this.#clock.clearTimeout(this.#idle)
    this.#idle = this.#clock.setTimeout(() => {
      this.#expire(`no progress for ${seconds(this.#deadlines.idleMs)} after ${this.#moved.bytes} bytes`)
    }, this.#deadlines.idleMs)
  }

  /** Ends the watch; both timers are cleared. */
  stop(): void {
    if (this.#idle !== undefined) this.#clock.clearTimeout(this.#idle)
    if (this.#ceiling !== undefined) this.#clock.clearTimeout(this.#ceiling)
    this.#idle = this.#ceiling = undefined
  }

  #armCeiling(): void {
    const remainingMs = this.#allowedMs() - this.#elapsedMs
    if (remainingMs <= 0) return this.#expire(`not finished after ${seconds(this.#elapsedMs)}`)
    this.#ceiling = this.#clock.setTimeout(() => {
      this.#elapsedMs += remainingMs
      this.#armCeiling()
    }, remainingMs)
  }

  #allowedMs(): number {
    const { baseMs, bytesPerSecond, perObjectMs } = this.#deadlines
    const bytes = Math.max(this.#expected.bytes, this.#moved.bytes)
    const objects = Math.max(this.#expected.objects, this.#moved.objects)
    return Math.ceil(baseMs + (bytes / bytesPerSecond) * 1000 + objects * perObjectMs)
  }

  #expire(problem: string): void {
    this.stop()
    this.#onExpired(problem)
  }
}

function seconds(ms: number): string {
  return `${Math.round(ms / 100) / 10} s`
}
