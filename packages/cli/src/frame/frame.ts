import type { Readable } from 'node:stream'
import type { Command } from '@commander-js/extra-typings'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { Output } from '../output.ts'
import { Context } from './context.ts'
import type { GlobalOptions } from './global-options.ts'

/** What ties commands to the program they belong to. */
export class Frame {
  exitCode: ExitCode = EXIT.ok
  readonly #program: Command
  readonly #output: Output
  readonly #input: Readable & { isTTY?: boolean }
  #context: Context | undefined

  constructor(program: Command, output: Output, input: Readable & { isTTY?: boolean }) {
    this.#program = program
    this.#output = output
    this.#input = input
  }

  /** Runs what a command does, and keeps its exit code. */
  async run(action: (context: Context) => Promise<ExitCode>): Promise<void> {
    const context = (this.#context = new Context(this.globals, this.#output, this.#input))
    try {
      this.exitCode = await action(context)
    } finally {
      await context.close()
    }
  }

  get globals(): GlobalOptions {
    return this.#program.opts() as unknown as GlobalOptions
  }

  /** Whether Ctrl-C ended it. */
  get isStopped(): boolean {
    return this.#context?.isStopped === true
  }
}
