import process from 'node:process'
import type { Readable } from 'node:stream'
import type { Command } from '@commander-js/extra-typings'
import { Engine, type InputOutcome } from '@nexus/engine'
import { loadModule } from '../load-module.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { Frame } from '../frame/frame.ts'
import { modulesOf } from '../frame/global-options.ts'
import type { Output } from '../output.ts'
import { agentPlugins, type AgentPlugins } from '../run/agent-plugins.ts'
import { type FrontEnd, jsonFrontEnd, textFrontEnd, type TurnReport } from '../run/front-end.ts'
import { Interrupts } from '../run/interrupts.ts'
import { Lines } from '../run/lines.ts'
import { noteLogger } from '../run/note-logger.ts'
import { UsageError } from '../usage-error.ts'

/** Where a chat takes place. */
export interface Streams {
  output: Output
  input: Readable & { isTTY?: boolean }
}

/** Adds `nexus run`: its exit code is 1 when the turn of `--input` failed. */
export function runCommand(program: Command, frame: Frame): void {
  program
    .command('run')
    .summary('chat with an agent, in a session that can be resumed')
    .description(
      'Runs an agent of the standard plugins in a session. A line is an input; Ctrl-C cancels the turn, a second one stops. Killed anywhere, the session goes on with --recall.',
    )
    .option('--recall <id>', 'the session to go on with')
    .option('--input <text>', 'take one turn and end')
    .option(
      '--model <name>',
      'the model to ask (or NEXUS_MODEL), with OPENAI_API_KEY and OPENAI_BASE_URL in the environment',
    )
    .option('--script <file>', 'answer from a file instead of asking a model')
    .action(
      async (options) => await frame.run(async (context) => await run({ ...context.globals, ...options }, context)),
    )
}

interface RunOptions {
  config?: string | undefined
  recall?: string | undefined
  input?: string | undefined
  model?: string | undefined
  script?: string | undefined
  import: readonly string[]
  json: boolean
}

async function run(options: RunOptions, { output, input }: Streams): Promise<ExitCode> {
  const { config } = options
  if (config === undefined) throw new UsageError('run needs --config <file>, e.g. configs/local.yaml')
  const frontEnd = options.json ? jsonFrontEnd(output) : textFrontEnd(output)
  const agent = await agentPlugins(config, options, (delta) => frontEnd.delta(delta))
  for (const module of modulesOf(options, process.env)) await loadModule(module)
  const engine = await Engine.fromFile(config, {
    plugins: agent.plugins,
    logger: noteLogger(output),
    transport: 'cli',
    ...(options.recall === undefined ? {} : { recallSessionId: options.recall }),
  })
  frontEnd.attach(engine)
  await engine.boot()
  return await new Chat(engine, agent, frontEnd).hold(options.input, input)
}

/** One session with one person or program. */
class Chat {
  readonly #engine: Engine
  readonly #frontEnd: FrontEnd
  readonly #interrupts: Interrupts
  /** Settles when the session is to be stopped. */
  readonly #stopped: Promise<void>
  #lines: Lines | undefined

  constructor(engine: Engine, agent: AgentPlugins, frontEnd: FrontEnd) {
    this.#engine = engine
    this.#frontEnd = frontEnd
    let stop!: () => void
    this.#stopped = new Promise((resolve) => {
      stop = resolve
    })
    this.#interrupts = new Interrupts({
      cancel: () => agent.cancel('Ctrl-C'),
      stop: () => {
        this.#lines?.close()
        stop()
      },
      note: (text) => frontEnd.note(text),
    })
  }

  async hold(single: string | undefined, input: Streams['input']): Promise<ExitCode> {
    try {
      // What a killed run left unfinished is given again by the engine; it comes first.
      await Promise.race([this.#engine.bus.drain({ timeoutMs: 2 ** 31 - 1 }), this.#stopped])
      this.#interrupts.turnEnded()
      const ok = single === undefined ? await this.#talk(input) : await this.#turn(single)
      this.#frontEnd.end(this.#engine)
      return ok ? EXIT.ok : EXIT.failed
    } finally {
      await this.#engine.stop()
      this.#interrupts.release()
    }
  }

  async #talk(input: Streams['input']): Promise<true> {
    this.#lines = new Lines(input, this.#interrupts.interrupt)
    while (!this.#interrupts.isStopping) {
      const line = await this.#lines.next()
      if (line === undefined) break
      await this.#turn(line)
    }
    this.#lines.close()
    return true
  }

  async #turn(text: string): Promise<boolean> {
    const outcome = await Promise.race([this.#engine.submitInput(text), this.#stopped])
    this.#interrupts.turnEnded()
    const report: TurnReport =
      outcome === undefined
        ? { ok: false, error: 'stopped; the turn goes on when the session is resumed' }
        : reportOf(outcome)
    this.#frontEnd.turn(report)
    return report.ok
  }
}

function reportOf({ accepted, reason, failed, error, turnError }: InputOutcome): TurnReport {
  if (!accepted) return { ok: false, error: `refused: ${reason ?? 'no reason was given'}` }
  if (turnError !== undefined) return { ok: false, error: turnError }
  return failed === undefined
    ? { ok: true }
    : { ok: false, error: error instanceof Error ? error.message : String(error) }
}
