import { demo, DEMO_USAGE } from './commands/demo.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Output } from './output.ts'
import { UsageError } from './usage-error.ts'

interface Command {
  usage: string
  run: (args: readonly string[], output: Output) => Promise<ExitCode>
}

const COMMANDS: Readonly<Record<string, Command>> = {
  demo: { usage: DEMO_USAGE, run: demo },
}

function usage(): string {
  return `usage: nexus <command> [options]\n\n${Object.values(COMMANDS)
    .map((command) => command.usage)
    .join('\n\n')}`
}

function isArgumentError(error: unknown): error is Error {
  // node:util's parseArgs reports a wrong flag with one of these codes.
  return error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')
}

/** Runs one command line (without node and the script) and returns the exit code. */
export async function main(args: readonly string[], output: Output): Promise<ExitCode> {
  const [name, ...rest] = args
  if (name === undefined || name === 'help' || name === '--help') {
    output.line(usage())
    return name === undefined ? EXIT.usage : EXIT.ok
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command === undefined) {
    output.note(`nexus: there is no command "${name}"\n\n${usage()}`)
    return EXIT.usage
  }
  if (rest.includes('--help')) {
    output.line(command.usage)
    return EXIT.ok
  }
  try {
    return await command.run(rest, output)
  } catch (error) {
    if (error instanceof UsageError || isArgumentError(error)) {
      output.note(`nexus ${name}: ${error.message}`)
      return EXIT.usage
    }
    output.note(`nexus ${name}: ${error instanceof Error ? error.message : String(error)}`)
    return EXIT.failed
  }
}
