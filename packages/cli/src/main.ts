import process from 'node:process'
import type { Readable } from 'node:stream'
import { CommanderError } from '@commander-js/extra-typings'
import { isNexusError } from '@nexus/errors'
import { EXIT, type ExitCode } from './exit-codes.ts'
import { failureJson, failureLines } from './frame/failure.ts'
import type { Output } from './output.ts'
import { createProgram } from './program.ts'
import { UsageError } from './usage-error.ts'

/** Runs one command line (without node and the script) and returns the exit code. */
export async function main(
  args: readonly string[],
  output: Output,
  input: Readable & { isTTY?: boolean } = process.stdin,
): Promise<ExitCode> {
  const { program, frame } = createProgram(output, input)
  try {
    if (args.length === 0) {
      program.outputHelp()
      return EXIT.usage
    }
    await program.parseAsync([...args], { from: 'user' })
    return frame.exitCode
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    const { json, verbose } = frame.globals
    if (json) output.line(JSON.stringify(failureJson(error)))
    const [first = '', ...causes] = failureLines(error, verbose)
    for (const line of [`nexus: ${first}`, ...causes]) output.note(line)
    if (frame.isStopped) return EXIT.stopped
    return codeOf(error)
  }
}

function codeOf(error: unknown): ExitCode {
  if (error instanceof UsageError || isNexusError(error, 'INVALID_ARGUMENT') || isNexusError(error, 'DRIVER_MISSING')) {
    return EXIT.usage
  }
  return isNexusError(error, 'LOCKED') ? EXIT.refused : EXIT.failed
}
