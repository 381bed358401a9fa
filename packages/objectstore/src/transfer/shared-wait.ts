import type { OpOptions } from '../driver.ts'

/**
 * One call that is made of several pieces at a time, say downloads or parts: it waits as a whole only while each of them
 * does. As long as one holds its turn, that one is judged.
 */
export class SharedWait {
  readonly #onWait: OpOptions['onWait']
  #running = 0
  #waiting = 0
  #resume: (() => void) | undefined

  constructor(onWait: OpOptions['onWait']) {
    this.#onWait = onWait
  }

  /** A piece begins; call what it returns when the piece has ended. */
  begin(): () => void {
    this.#running++
    this.#judge()
    return () => {
      this.#running--
      this.#judge()
    }
  }

  /** For the pieces, in place of the call's own `onWait`. */
  readonly onWait = (): (() => void) => {
    this.#waiting++
    this.#judge()
    return () => {
      this.#waiting--
      this.#judge()
    }
  }

  #judge(): void {
    const waits = this.#waiting > 0 && this.#waiting >= this.#running
    if (waits && this.#resume === undefined) this.#resume = this.#onWait?.()
    if (!waits) {
      this.#resume?.()
      this.#resume = undefined
    }
  }
}
