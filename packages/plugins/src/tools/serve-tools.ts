import type { PluginContext } from '@nexus/engine'
import { toJsonSchema } from '@valibot/to-json-schema'
import * as v from 'valibot'
import { TurnSignals } from '../turn/turn-signals.ts'

declare module '@nexus/engine' {
  interface EventMap {
    /** A tool that models may call; emitted at every boot by the plugin that answers `tool.invoke` of that name. */
    'tool.register': { _schema_version?: 1; name: string; description: string; parameters: object }
  }
}

/** What a tool is given besides its arguments. */
export interface ToolRun {
  /** Fires when the turn is cancelled or ends. */
  signal: AbortSignal
  turnId: string | undefined
}

/** A tool: what models are told of it, and what it does. */
export interface Tool<Schema extends v.GenericSchema = v.GenericSchema> {
  name: string
  /** What it does, for the model. */
  description: string
  /** An object schema; descriptions of its fields go to the model. */
  parameters: Schema
  /** Runs it. The result becomes `output` of `tool.result`, what it throws `error`. */
  run(args: v.InferOutput<Schema>, run: ToolRun): unknown
}

/** The same tool, its arguments typed by its schema. */
export function defineTool<Schema extends v.GenericSchema>(tool: Tool<Schema>): Tool {
  return tool
}

/** The tools of one plugin, as a part that it starts in `init`, announces in `ready`, and stops in `shutdown`. */
export interface ServedTools {
  /** Tells agents of the tools: call it in `ready`. */
  announce(): Promise<void>
  /** Stops what still runs: call it in `shutdown`. */
  close(): void
}

/**
 * Makes a plugin answer `tool.invoke` of its tools: checks the arguments, runs the tool, emits `tool.result` through the
 * call. A tool that throws, or is called with wrong arguments, has a result that tells the model what was wrong. A call of a
 * cancelled turn ends with the result that it was cancelled.
 *
 * @param confined what the tools do stays inside the session: a branch of it has them run again to rebuild its files
 */
export function serveTools(
  { bus }: PluginContext,
  tools: readonly Tool[],
  { confined = false }: { confined?: boolean } = {},
): ServedTools {
  const signals = new TurnSignals(bus)
  const byName = new Map(tools.map((tool) => [tool.name, tool]))
  bus.subscribe(
    'tool.invoke',
    async (event) => {
      const { id, name, arguments: args, turn_id } = event.payload
      const tool = byName.get(name)
      if (tool === undefined) return
      const signal = signals.of(turn_id)
      const result = await runTool(tool, args, { signal, turnId: turn_id })
      await event.emit('tool.result', { id, name, ...result, ...(turn_id === undefined ? {} : { turn_id }) })
    },
    { confined },
  )
  return {
    async announce() {
      for (const { name, description, parameters } of tools) {
        const { $schema: _version, ...schema } = toJsonSchema(parameters, { errorMode: 'ignore' })
        await bus.emit('tool.register', { name, description, parameters: schema })
      }
    },
    close: () => signals.close(),
  }
}

async function runTool(tool: Tool, args: unknown, run: ToolRun): Promise<{ output: unknown } | { error: string }> {
  const checked = v.safeParse(tool.parameters, args)
  if (!checked.success) {
    return {
      error: checked.issues.map((issue) => `${v.getDotPath(issue) ?? 'arguments'}: ${issue.message}`).join('; '),
    }
  }
  try {
    run.signal.throwIfAborted()
    return { output: await tool.run(checked.output, run) }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}
