import { Argument, type Command } from '@commander-js/extra-typings'
import { completionScript, SHELLS } from '../completion.ts'
import { EXIT } from '../exit-codes.ts'
import type { Frame } from '../frame/frame.ts'

/** Adds `nexus completion`. */
export function completionCommand(program: Command, frame: Frame): void {
  program
    .command('completion')
    .summary('print a script that completes commands and options')
    .description(
      'Prints a completion script: source <(nexus completion bash), source <(nexus completion zsh), or nexus completion fish | source.',
    )
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .action(
      async (shell) =>
        await frame.run(async (context) => {
          context.output.line(completionScript(program, shell))
          return await Promise.resolve(EXIT.ok)
        }),
    )
}
