import process from 'node:process'
import type { Readable } from 'node:stream'
import { styleText } from 'node:util'
import type { Output } from '../output.ts'
import type { GlobalOptions } from './global-options.ts'
import { openPlaces, type Places } from './places.ts'
import { fittedTable } from './text.ts'

/** How a piece of text looks on a terminal. */
export type Style = 'bold' | 'dim' | 'green' | 'red' | 'yellow'

/** What the action of one command works with. */
export class Context {
  readonly globals: GlobalOptions
  readonly input: Readable & { isTTY?: boolean }
  readonly #output: Output
  #places: Promise<Places> | undefined
  #stop: AbortController | undefined

  constructor(globals: GlobalOptions, output: Output, input: Readable & { isTTY?: boolean }) {
    this.globals = globals
    this.#output = output
    this.input = input
  }

  /** Standard streams, for what prints by itself. */
  get output(): Output {
    return this.#output
  }

  /** Prints the result: one JSON value for programs, or lines for people. */
  result(value: unknown, lines: () => readonly string[]): void {
    if (this.globals.json) this.#output.line(JSON.stringify(value))
    else for (const line of lines()) this.#output.line(line)
  }

  /** One value of a stream of results: a line of JSON, or one of text. */
  item(value: unknown, line: () => string): void {
    this.#output.line(this.globals.json ? JSON.stringify(value) : line())
  }

  /** A remark on standard error; left out with `--quiet`. */
  note(text: string): void {
    if (!this.globals.quiet) this.#output.note(text)
  }

  style(style: Style, text: string): string {
    return this.#output.colours === true && this.globals.color
      ? styleText(style, text, { validateStream: false })
      : text
  }

  /** Rows in columns that fit the terminal, the first of them being their names. */
  table(rows: readonly (readonly string[])[]): string[] {
    const [names = '', ...lines] = fittedTable(rows, this.#output.columns)
    return [this.style('bold', names), ...lines]
  }

  /** Where sessions are, opened once. */
  places(): Promise<Places> {
    this.#places ??= openPlaces(this.globals, (text) => this.note(text))
    return this.#places
  }

  /** Fires at Ctrl-C: what is under way ends, and what was begun is taken back. A second Ctrl-C ends the process at once. */
  get signal(): AbortSignal {
    if (this.#stop === undefined) {
      const stop = (this.#stop = new AbortController())
      this.#onInterrupt = () => {
        process.off('SIGINT', this.#onInterrupt)
        stop.abort(new DOMException('stopped by Ctrl-C', 'AbortError'))
      }
      process.on('SIGINT', this.#onInterrupt)
    }
    return this.#stop.signal
  }

  #onInterrupt = (): void => undefined

  /** From now on Ctrl-C ends the process at once: for what holds the thread and leaves nothing behind. */
  endAtInterrupt(): void {
    process.off('SIGINT', this.#onInterrupt)
  }

  /** Whether Ctrl-C was pressed. */
  get isStopped(): boolean {
    return this.#stop?.signal.aborted === true
  }

  async close(): Promise<void> {
    process.off('SIGINT', this.#onInterrupt)
    const places = await this.#places?.catch(() => undefined)
    await places?.close()
  }
}
