import process from 'node:process'
import type { Readable } from 'node:stream'
import { Command, CommanderError } from '@commander-js/extra-typings'
import { demoCommand } from './commands/demo.ts'
import { replayCommand } from './commands/replay.ts'
import { runCommand } from './commands/run.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Output } from './output.ts'
import { UsageError } from './usage-error.ts'

/** Runs one command line (without node and the script) and returns the exit code. */
export async function main(
  args: readonly string[],
  output: Output,
  input: Readable & { isTTY?: boolean } = process.stdin,
): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT.ok
  const done = (code: ExitCode): void => {
    exitCode = code
  }
  const program = new Command('nexus')
    .description('Agent sessions that survive their host.')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => output.line(text.trimEnd()),
      writeErr: (text) => output.note(text.trimEnd()),
      // Help that was not asked for, and what is wrong, go to standard error.
      outputError: (text, write) => write(text.replace(/^error: /, 'nexus: ')),
    })
    .showHelpAfterError('(nexus --help shows the commands, nexus <command> --help their options)')
  demoCommand(program, output, done)
  runCommand(program, { output, input }, done)
  replayCommand(program, output, done)
  try {
    if (args.length === 0) {
      program.outputHelp()
      return EXIT.usage
    }
    await program.parseAsync([...args], { from: 'user' })
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    output.note(`nexus ${args[0]}: ${error instanceof Error ? error.message : String(error)}`)
    return error instanceof UsageError ? EXIT.usage : EXIT.failed
  }
}
