import process from 'node:process'
import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import { Engine, type ReplayReport } from '@nexus/engine'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { Context } from '../frame/context.ts'
import type { Frame } from '../frame/frame.ts'
import { modulesOf } from '../frame/global-options.ts'
import { loadModule } from '../load-module.ts'
import { agentPlugins, type ModelChoice } from '../run/agent-plugins.ts'
import { noteLogger } from '../run/note-logger.ts'
import { UsageError } from '../usage-error.ts'

/** Adds `nexus replay`: its exit code is 0 only when every event is as before. */
export function replayCommand(program: Command, frame: Frame): void {
  program
    .command('replay')
    .summary('take the turns of a session once more, and compare')
    .description(
      'Gives the inputs of a session again, in a scratch session, with what models and tools said then, and names the first event that differs. Nothing outside is asked, and the session is only read. It needs the --config that the session ran under.',
    )
    .argument('<id>', 'the session')
    .option('--model <name>', 'as it was given to nexus run')
    .option('--script <file>', 'as it was given to nexus run')
    .option('--timeout <seconds>', 'how long one turn may take', secondsOf, 120)
    .action(async (id, options) => await frame.run(async (context) => await replay(id, options, context)))
}

function secondsOf(text: string): number {
  const seconds = Number(text)
  if (!(seconds > 0 && seconds <= 86_400)) throw new InvalidArgumentError('It must be a number of seconds above 0.')
  return seconds
}

async function replay(
  id: string,
  { timeout, ...model }: ModelChoice & { timeout: number },
  context: Context,
): Promise<ExitCode> {
  const { config } = context.globals
  if (config === undefined) throw new UsageError('replay needs --config <file>: the one that the session ran under')
  for (const module of modulesOf(context.globals, process.env)) await loadModule(module)
  const { plugins } = await agentPlugins(config, model, () => undefined)
  const report = await Engine.replay(id, config, {
    plugins,
    logger: noteLogger(context.output),
    turnTimeoutMs: timeout * 1000,
    signal: context.signal,
  })
  context.result(report, () => linesOf(report))
  return report.firstDifference === undefined ? EXIT.ok : EXIT.failed
}

function linesOf({ turns, events, firstDifference }: ReplayReport): string[] {
  if (firstDifference === undefined) return [`${turns} turns, ${events} events: the same`]
  const { turn, event, expected, found } = firstDifference
  const show = (side: typeof expected): string =>
    side === undefined ? 'nothing' : `${side.type} ${JSON.stringify(side.payload)}`
  return [`turn ${turn}, event ${event} differs`, `  session: ${show(expected)}`, `  replay:  ${show(found)}`]
}
