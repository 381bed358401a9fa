/** Puts whose bytes are in memory that run at once; each holds two descriptors. */
const LIMIT = 16

/** How long admitted work may keep the event loop before others get a turn, in ms. */
const SLICE_MS = 4

/**
 * Admits in-memory puts: a bounded number at once, and not for longer than a slice per turn of the event loop, because
 * each does its cheap file calls synchronously and a caller may hand over thousands in one go.
 */
export class Lane {
  #active = 0
  #sliceStartMs: number | undefined
  readonly #waiting: (() => void)[] = []

  get active(): number {
    return this.#active
  }

  /** Undefined when the caller may go on at once, else a promise of admission. Each entry is followed by `leave`. */
  enter(): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#active < LIMIT && this.#hasTime()) {
      this.#active++
      return undefined
    }
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  leave(): void {
    this.#active--
    this.#admit()
  }

  #admit(): void {
    while (this.#active < LIMIT && this.#waiting.length > 0 && this.#hasTime()) {
      this.#active++
      this.#waiting.shift()?.()
    }
  }

  #hasTime(): boolean {
    if (this.#sliceStartMs === undefined) {
      this.#sliceStartMs = performance.now()
      setImmediate(() => {
        this.#sliceStartMs = undefined
        this.#admit()
      })
      return true
    }
    return performance.now() - this.#sliceStartMs < SLICE_MS
  }
}
