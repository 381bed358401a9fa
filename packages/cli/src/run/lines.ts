import process from 'node:process'
import { createInterface, type Interface } from 'node:readline'
import type { Readable } from 'node:stream'

/** The lines that a person or a program gives, one at a time. */
export class Lines {
  readonly #interface: Interface
  readonly #isTerminal: boolean
  readonly #lines: AsyncIterator<string>

  constructor(input: Readable & { isTTY?: boolean }, onInterrupt: () => void) {
    this.#isTerminal = input.isTTY === true
    this.#interface = createInterface({
      input,
      ...(this.#isTerminal ? { output: process.stderr, prompt: '> ' } : {}),
      terminal: this.#isTerminal,
    })
    // In raw mode Ctrl-C is a key.
    this.#interface.on('SIGINT', onInterrupt)
    this.#lines = this.#interface[Symbol.asyncIterator]()
  }

  /** The next line that isn't empty; undefined at the end. */
  async next(): Promise<string | undefined> {
    for (;;) {
      if (this.#isTerminal) this.#interface.prompt()
      const { value, done } = await this.#lines.next()
      if (done === true) return undefined
      if (value.trim() !== '') return value
    }
  }

  close(): void {
    this.#interface.close()
  }
}
