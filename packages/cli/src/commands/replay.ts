import { join } from 'node:path'
import process from 'node:process'
import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import { type BranchReport, Engine, type Plugin, type ReplayReport } from '@nexus/engine'
import { loadConfigFile } from '@nexus/engine/config'
import { CONFIG_SNAPSHOT_PATH } from '@nexus/durability/names'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { Context } from '../frame/context.ts'
import type { Frame } from '../frame/frame.ts'
import { modulesOf } from '../frame/global-options.ts'
import { loadModule } from '../load-module.ts'
import { agentPlugins, type ModelChoice } from '../run/agent-plugins.ts'
import { branchLines, differenceLines, reportJson } from '../run/branch-lines.ts'
import { noteLogger } from '../run/note-logger.ts'
import { UsageError } from '../usage-error.ts'

/** Adds `nexus replay`: its exit code is 0 only when every event is as before; of a branch, when it could be taken. */
export function replayCommand(program: Command, frame: Frame): void {
  program
    .command('replay')
    .summary('take the turns of a session once more, and compare')
    .description(
      'Gives the inputs of a session again, in a scratch session, with what models and tools said then, and names the first event that differs. Nothing outside is asked, and the session is only read. With --from-turn it branches: the turns before are taken as they were, those from it on run for real under --config, and what became different is told.',
    )
    .argument('<id>', 'the session')
    .option('--from-turn <number>', 'branch: the first turn to run for real, under --config', turnOf)
    .option('--model <name>', 'for a branch: the model to ask, as for nexus run')
    .option('--script <file>', 'for a branch: answer from a file, as for nexus run')
    .option('--keep <dir>', 'for a branch: an empty directory to keep it in, as a data root')
    .option('--timeout <seconds>', 'how long one turn may take', secondsOf, 120)
    .action(async (id, options) => await frame.run(async (context) => await replay(id, options, context)))
}

function secondsOf(text: string): number {
  const seconds = Number(text)
  if (!(seconds > 0 && seconds <= 86_400)) throw new InvalidArgumentError('It must be a number of seconds above 0.')
  return seconds
}

function turnOf(text: string): number {
  const turn = Number(text)
  if (!Number.isSafeInteger(turn) || turn < 1) throw new InvalidArgumentError('It must be a whole number from 1 on.')
  return turn
}

interface ReplayCommandOptions extends ModelChoice {
  fromTurn?: number | undefined
  keep?: string | undefined
  timeout: number
}

async function replay(
  id: string,
  { fromTurn, keep, timeout, ...model }: ReplayCommandOptions,
  context: Context,
): Promise<ExitCode> {
  const { config } = context.globals
  if (config === undefined)
    throw new UsageError('replay needs --config <file>: where the session is, and for a branch what it runs under')
  if (keep !== undefined && fromTurn === undefined)
    throw new UsageError('--keep is for a branch: give --from-turn, too')
  for (const module of modulesOf(context.globals, process.env)) await loadModule(module)
  const { core } = (await loadConfigFile(config, { backendGiven: true })).config
  const options = {
    plugins: await pluginsOf(join(core.sessions.root, id, CONFIG_SNAPSHOT_PATH)),
    logger: noteLogger(context.output),
    turnTimeoutMs: timeout * 1000,
    signal: context.signal,
  }
  if (fromTurn !== undefined) {
    const { plugins: branchPlugins } = await agentPlugins(config, model, () => undefined)
    const branch = { ...options, fromTurn, branchPlugins, ...(keep === undefined ? {} : { keepIn: keep }) }
    return told(context, await Engine.replay(id, config, branch), branchLines)
  }
  const report = await Engine.replay(id, config, options)
  told(context, report, linesOf)
  return report.firstDifference === undefined ? EXIT.ok : EXIT.failed
}

/** The plugins that a session was begun with. No model is asked in a replay, so any name of one will do. */
async function pluginsOf(snapshot: string): Promise<Plugin[]> {
  return (await agentPlugins(snapshot, { model: 'none' }, () => undefined)).plugins
}

function told<T extends ReplayReport | BranchReport>(
  context: Context,
  report: T,
  lines: (report: T) => string[],
): ExitCode {
  context.result(reportJson(report), () => lines(report))
  return EXIT.ok
}

function linesOf({ turns, events, firstDifference }: ReplayReport): string[] {
  if (firstDifference === undefined) return [`${turns} turns, ${events} events: the same`]
  return differenceLines(firstDifference)
}
