import type { Command } from '@commander-js/extra-typings'
import { Engine, type ReplayReport } from '@nexus/engine'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { Output } from '../output.ts'
import { agentPlugins } from '../run/agent-plugins.ts'
import { noteLogger } from '../run/note-logger.ts'

/** Adds `nexus replay`: its exit code is 0 only when every event is as before. */
export function replayCommand(program: Command, output: Output, done: (code: ExitCode) => void): void {
  program
    .command('replay')
    .summary('take the turns of a session once more, and compare')
    .description(
      'Gives the inputs of a session again, in a scratch session, with what models and tools said then, and names the first event that differs. Nothing outside is asked, and the session is only read.',
    )
    .argument('<id>', 'the session')
    .requiredOption('-c, --config <file>', 'the configuration that it ran under')
    .option('--model <name>', 'as it was given to nexus run')
    .option('--script <file>', 'as it was given to nexus run')
    .option('--timeout <seconds>', 'how long one turn may take', Number, 120)
    .option('--json', 'print the report as one JSON object', false)
    .action(async (id, options) => {
      const { plugins } = await agentPlugins(options.config, options, () => undefined)
      const report = await Engine.replay(id, options.config, {
        plugins,
        logger: noteLogger(output),
        turnTimeoutMs: options.timeout * 1000,
      })
      if (options.json) output.line(JSON.stringify(report))
      else for (const line of linesOf(report)) output.line(line)
      done(report.firstDifference === undefined ? EXIT.ok : EXIT.failed)
    })
}

function linesOf({ turns, events, firstDifference }: ReplayReport): string[] {
  if (firstDifference === undefined) return [`${turns} turns, ${events} events: the same`]
  const { turn, event, expected, found } = firstDifference
  const show = (side: typeof expected): string =>
    side === undefined ? 'nothing' : `${side.type} ${JSON.stringify(side.payload)}`
  return [`turn ${turn}, event ${event} differs`, `  session: ${show(expected)}`, `  replay:  ${show(found)}`]
}
