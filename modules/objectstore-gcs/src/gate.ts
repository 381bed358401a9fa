/** At most so many requests at a time; the others wait in order. Waiting is no silence of the store, so it comes before. */
export class Slots {
  #free: number
  readonly #waiting: (() => void)[] = []

  /** @param count at least 1 */
  constructor(count: number) {
    this.#free = count
  }

  /** Runs work in a slot. Rejects with the signal's reason when that fires first. */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#take(signal)
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }

  async #take(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#free > 0) {
      this.#free--
      return
    }
    await new Promise<void>((resolve, reject) => {
      const go = (): void => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      const onAbort = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(go), 1)
        reject(signal.reason as Error)
      }
      this.#waiting.push(go)
      signal.addEventListener('abort', onAbort, { once: true })
    })
  }
}
