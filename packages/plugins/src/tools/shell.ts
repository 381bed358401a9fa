import { mkdir } from 'node:fs/promises'
import process from 'node:process'
import type { Plugin, PluginContext } from '@nexus/engine'
import * as v from 'valibot'
import { type CommandResult, ProcessGroups } from './process-group.ts'
import { defineTool, type ServedTools, serveTools } from './serve-tools.ts'

const whole = v.pipe(v.number(), v.integer(), v.minValue(1))
const schema = v.strictObject({
  /** Commands have the rights of this process: nothing keeps them inside the session. */
  enabled: v.optional(v.boolean(), false),
  timeout_ms: v.optional(v.pipe(whole, v.maxValue(2 ** 31 - 1)), 120_000),
  /** Bytes of output that a call gives. */
  max_output_bytes: v.optional(whole, 64 * 1024),
  /** Environment variables that commands see besides PATH, HOME, LANG, TMPDIR and TZ. */
  pass_env: v.optional(v.array(v.string()), []),
})
type Config = v.InferOutput<typeof schema>

const PASSED = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ']

/** On `agent.turn.end`: before the turn is stored, so that nothing writes while that happens. */
const KILL_PRIORITY = -1000

/**
 * `nexus.tool.shell`: lets the model run commands in the session's `files/`. Off until `enabled: true`. What a command left
 * running ends with its turn.
 *
 * @see docs/guides/standard-plugins.md
 */
export function shellTool(): Plugin {
  let tools: ServedTools | undefined
  const groups = new ProcessGroups()
  const plugin: Plugin<Config> = {
    id: 'nexus.tool.shell',
    name: 'Shell',
    version: '1.0.0',
    configSchema: schema,
    init(context) {
      if (!context.config.enabled) return
      tools = serveTools(context, [commandTool(context, groups)])
      context.bus.subscribe('agent.turn.end', () => groups.killAll(), { priority: KILL_PRIORITY })
    },
    ready: () => tools?.announce(),
    shutdown() {
      tools?.close()
      groups.killAll()
    },
  }
  return plugin
}

function commandTool({ session, config }: PluginContext<Config>, groups: ProcessGroups): ReturnType<typeof defineTool> {
  return defineTool({
    name: 'run_command',
    description: 'Runs a command of the shell in the directory of the files, and gives its output and exit code.',
    parameters: v.object({ command: v.pipe(v.string(), v.minLength(1)) }),
    run: async ({ command }, { signal }) => {
      await mkdir(session.filesDir, { recursive: true, mode: 0o700 })
      const result = await groups.run(command, {
        cwd: session.filesDir,
        env: environment(config.pass_env),
        timeoutMs: config.timeout_ms,
        maxOutputBytes: config.max_output_bytes,
        signal,
      })
      return describe(result, config.timeout_ms)
    },
  })
}

/** Only what is named: keys and tokens of the host are none of a command's business. */
function environment(names: readonly string[]): NodeJS.ProcessEnv {
  return Object.fromEntries([...PASSED, ...names].map((name) => [name, process.env[name]]))
}

function describe({ exitCode, killedBy, timedOut, output, droppedBytes }: CommandResult, timeoutMs: number): string {
  const cut = droppedBytes === 0 ? '' : `\n[cut: ${droppedBytes} more bytes]`
  const end = timedOut
    ? `ended after ${timeoutMs} ms`
    : killedBy === null
      ? `exit code ${exitCode}`
      : `killed by ${killedBy}`
  return `${output}${cut}${output === '' || output.endsWith('\n') ? '' : '\n'}[${end}]`
}
