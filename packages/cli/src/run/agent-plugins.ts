import { readFile } from 'node:fs/promises'
import process from 'node:process'
import type { Plugin } from '@nexus/engine'
import {
  agentLoop,
  cancelControl,
  conversationMemory,
  fileTools,
  type LlmDelta,
  noteTools,
  openAiCompatible,
  scriptedModel,
  shellTool,
  tokenBudget,
} from '@nexus/plugins'
import { parse } from 'yaml'
import { UsageError } from '../usage-error.ts'

const OPENAI = 'nexus.llm.openai_compatible'
const SCRIPTED = 'nexus.llm.scripted'

/** What the command line says about the model. */
export interface ModelChoice {
  model?: string | undefined
  script?: string | undefined
}

/** The plugins that `nexus run` passes to the engine. */
export interface AgentPlugins {
  plugins: Plugin[]
  /** Cancels the turn under way; resolves with the ids of the turns. */
  cancel: (reason: string) => Promise<string[]>
}

/**
 * Every standard plugin where the configuration lists those that are active; else all but the models that nobody configured.
 *
 * @throws UsageError when there is no model
 */
export async function agentPlugins(
  configPath: string,
  { model = process.env['NEXUS_MODEL'], script }: ModelChoice,
  onDelta: (delta: LlmDelta) => void,
): Promise<AgentPlugins> {
  const blocks = await pluginBlocks(configPath)
  const isNamed = (id: string): boolean => blocks.includes('active') || blocks.includes(id)
  const models: Plugin[] = []
  if (script !== undefined || isNamed(SCRIPTED)) {
    models.push(scriptedModel({ onDelta, defaults: script === undefined ? {} : { file: script } }))
  }
  if (script === undefined && (model !== undefined || isNamed(OPENAI))) {
    models.push(openAiCompatible({ onDelta, defaults: modelDefaults(model) }))
  }
  if (models.length === 0) {
    throw new UsageError(
      `there is no model: give --model NAME, with OPENAI_API_KEY and OPENAI_BASE_URL in the environment, or --script FILE, or a block ${OPENAI} in ${configPath}`,
    )
  }
  const { plugin, cancel } = cancelControl()
  const others = [tokenBudget(), conversationMemory(), agentLoop(), fileTools(), noteTools(), shellTool(), plugin]
  return { plugins: [...others, ...models], cancel }
}

/** What the environment says, under what the configuration says. */
function modelDefaults(model: string | undefined): Record<string, string> {
  const { OPENAI_API_KEY: apiKey, OPENAI_BASE_URL: baseUrl } = process.env
  return {
    ...(model === undefined ? {} : { model }),
    ...(apiKey === undefined ? {} : { api_key: apiKey }),
    ...(baseUrl === undefined ? {} : { base_url: baseUrl }),
  }
}

/** The keys below `plugins`. What is wrong with the file is the engine's to say, with line and column. */
async function pluginBlocks(path: string): Promise<string[]> {
  try {
    const config = parse(await readFile(path, 'utf8'), { logLevel: 'silent' }) as { plugins?: object } | null
    return Object.keys(config?.plugins ?? {})
  } catch {
    return ['active']
  }
}
