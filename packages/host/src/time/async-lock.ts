/** Lets one holder in at a time, in the order they asked. */
export class AsyncLock {
  #tail: Promise<void> = Promise.resolve()

  /** Runs `work` alone. Its failure is the caller's; the next holder is let in either way. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(work)
    this.#tail = result.then(
      () => undefined,
      () => undefined,
    )
    return result
  }
}
