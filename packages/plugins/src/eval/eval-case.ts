import { isNexusError, type Plugin, type PluginContext } from '@nexus/engine'
import * as v from 'valibot'
import { disappointments, expectations } from './expectations.ts'

declare module '@nexus/engine' {
  interface EventMap {
    /** A run with expectations ended; told while the engine stops. */
    'eval.case.result': { _schema_version?: 1; name: string; passed: boolean; failures: readonly string[] }
  }
}

const schema = v.strictObject({
  name: v.pipe(v.string(), v.minLength(1)),
  expect: v.optional(expectations, {}),
})
type Config = v.InferOutput<typeof schema>

/** How a run compared to what was expected of it. */
export interface EvalVerdict {
  name: string
  passed: boolean
  /** Each expectation that did not come true, as a sentence. */
  failures: string[]
}

/** The plugin, and its verdict so far. */
export interface EvalCase {
  readonly plugin: Plugin
  /** @throws when the plugin isn't up */
  readonly verdict: () => Promise<EvalVerdict>
}

/**
 * `nexus.eval.case`: watches a run and compares it to what is expected: outputs, tools, files, tokens, failed turns. The verdict
 * is told as `eval.case.result` when the engine stops, and given to the program whenever it asks.
 *
 * @see docs/guides/standard-plugins.md
 */
export function evalCase(): EvalCase {
  let watch: Watch | undefined
  const plugin: Plugin<Config> = {
    id: 'nexus.eval.case',
    name: 'Evaluation case',
    version: '1.0.0',
    configSchema: schema,
    init(context) {
      const started = new Watch(context)
      watch = started
      context.bus.subscribe('core.shutdown', async (event) => event.emit('eval.case.result', await started.verdict()))
    },
  }
  return {
    plugin,
    verdict: async () => {
      if (watch === undefined) throw new Error('nexus.eval.case is not up: boot the engine first')
      return await watch.verdict()
    },
  }
}

class Watch {
  readonly #context: PluginContext<Config>
  readonly #outputs: string[] = []
  readonly #tools = new Set<string>()
  #failedTurns = 0

  constructor(context: PluginContext<Config>) {
    this.#context = context
    const { bus } = context
    bus.subscribe('io.output', ({ payload }) => void this.#outputs.push(payload.content))
    bus.subscribe('tool.invoke', ({ payload }) => void this.#tools.add(payload.name), { observes: true })
    bus.subscribe('agent.turn.end', ({ payload }) => {
      if (payload.error !== undefined) this.#failedTurns++
    })
  }

  async verdict(): Promise<EvalVerdict> {
    const { config, session } = this.#context
    const failures = await disappointments(config.expect, {
      outputs: this.#outputs,
      tools: this.#tools,
      failedTurns: this.#failedTurns,
      tokensUsed: session.meta().tokensUsed,
      readFile: async (path) => {
        try {
          return (await session.readFile(path)).toString('utf8')
        } catch (error) {
          if (isNexusError(error, 'NOT_FOUND')) return undefined
          throw error
        }
      },
    })
    return { name: config.name, passed: failures.length === 0, failures }
  }
}
