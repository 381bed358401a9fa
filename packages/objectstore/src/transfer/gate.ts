import type { OpOptions } from '../driver.ts'

interface Waiting {
  weight: number
  enter: () => void
}

/**
 * Lets callers in as long as their weights together stay within a limit; the others wait in order. For requests at a time,
 * and for bytes of memory.
 */
export class Gate {
  readonly #limit: number
  readonly #queue: Waiting[] = []
  #inside = 0

  /** @param limit at least 1 */
  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * Waits for room, and says so through `onWait`, so that the wait counts against no limit of the call. A weight above the
   * limit counts as the limit: it enters alone.
   *
   * @returns gives the room back; further calls of it do nothing
   * @throws the signal's reason when it fires first
   */
  async enter(weight: number, { signal, onWait }: Pick<OpOptions, 'signal' | 'onWait'> = {}): Promise<() => void> {
    signal?.throwIfAborted()
    const counted = Math.min(weight, this.#limit)
    if (this.#queue.length > 0 || this.#inside + counted > this.#limit) {
      const resume = onWait?.()
      try {
        await this.#wait(counted, signal)
      } finally {
        resume?.()
      }
    } else this.#inside += counted
    let left = false
    return () => {
      if (left) return
      left = true
      this.#inside -= counted
      this.#admit()
    }
  }

  #wait(weight: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1)
        reject(signal?.reason as Error)
        this.#admit()
      }
      const waiting: Waiting = {
        weight,
        enter: () => {
          signal?.removeEventListener('abort', onAbort)
          resolve()
        },
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#queue.push(waiting)
    })
  }

  #admit(): void {
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      if (this.#inside + next.weight > this.#limit) return
      this.#inside += next.weight
      this.#queue.shift()
      next.enter()
    }
  }
}
