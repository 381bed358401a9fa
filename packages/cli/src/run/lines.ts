import process from 'node:process'
import { createInterface, type Interface } from 'node:readline'
import { type Readable, Writable } from 'node:stream'

const PROMPT = '> '

/** The lines that a person or a program gives, one at a time. */
export class Lines {
  readonly #interface: Interface
  readonly #lines: AsyncIterator<string> | TypedLines

  constructor(input: Readable & { isTTY?: boolean }, onInterrupt: () => void) {
    if (input.isTTY === true) {
      const echo = new Echo()
      this.#interface = createInterface({ input, output: echo, prompt: PROMPT, terminal: true })
      this.#lines = new TypedLines(this.#interface, echo)
    } else {
      this.#interface = createInterface({ input, terminal: false })
      this.#lines = this.#interface[Symbol.asyncIterator]()
    }
    // In raw mode Ctrl-C is a key.
    this.#interface.on('SIGINT', onInterrupt)
  }

  /** The next line that isn't empty; undefined at the end. */
  async next(): Promise<string | undefined> {
    for (;;) {
      const { value, done } = await this.#lines.next()
      if (done === true) return undefined
      if (value.trim() !== '') return value
    }
  }

  close(): void {
    this.#interface.close()
  }
}

/** The prompt and what is typed behind it; silent while an answer is being written, or the two would mix. */
class Echo extends Writable {
  isQuiet = true

  get columns(): number {
    return process.stderr.columns
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (!this.isQuiet) process.stderr.write(chunk)
    done()
  }
}

/** Lines typed at a prompt, those that were typed before it was there as well. */
class TypedLines {
  readonly #interface: Interface
  readonly #echo: Echo
  readonly #ahead: string[] = []
  #isClosed = false
  #wake: () => void = () => undefined

  constructor(from: Interface, echo: Echo) {
    this.#interface = from
    this.#echo = echo
    from.on('line', (line) => {
      this.#ahead.push(line)
      this.#wake()
    })
    from.on('close', () => {
      // The prompt still stands there, without an input.
      if (!echo.isQuiet) process.stderr.write('\n')
      echo.isQuiet = true
      this.#isClosed = true
      this.#wake()
    })
  }

  async next(): Promise<{ value: string; done: boolean }> {
    const typed = this.#ahead.shift()
    if (typed !== undefined) {
      process.stderr.write(`${PROMPT}${typed}\n`)
      return { value: typed, done: false }
    }
    if (this.#isClosed) return { value: '', done: true }
    this.#echo.isQuiet = false
    const given = new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    this.#interface.prompt(true)
    await given
    this.#echo.isQuiet = true
    const value = this.#ahead.shift()
    return { value: value ?? '', done: value === undefined }
  }
}
