/**
 * Runs what changes one path one after the other, in the order of the calls. Different paths don't wait for each other,
 * until so many run that they would eat up the process's file descriptors.
 */
export class PathQueue {
  readonly #limit: number
  readonly #tails = new Map<string, Promise<unknown>>()
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(limit = 64) {
    this.#limit = limit
  }

  /** Starts `task` when every earlier one for `path` has settled; at once, in this very call, when nothing is in its way. */
  run<T>(path: string, task: () => Promise<T>): Promise<T> {
    const start = (): Promise<T> => this.#start(task)
    const tail = this.#tails.get(path)
    const result = tail === undefined ? start() : tail.then(start, start)
    this.#tails.set(path, result)
    const forget = (): void => {
      if (this.#tails.get(path) === result) this.#tails.delete(path)
    }
    result.then(forget, forget)
    return result
  }

  /** Whether a task for `path` would start in the very call of {@link run}. */
  isFree(path: string): boolean {
    return this.#running < this.#limit && !this.#tails.has(path)
  }

  /** Resolves when everything that runs or waits now has settled. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#tails.values())
  }

  async #start<T>(task: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#limit) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#running += 1
    try {
      return await task()
    } finally {
      // A waiter takes over this one's place, so the count stays.
      const next = this.#waiting.shift()
      if (next === undefined) this.#running -= 1
      else next()
    }
  }
}
