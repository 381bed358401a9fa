import { ConfigError, type ConfigPath, type ConfigProblem } from '../config/document/problem.ts'
import type { LoadedConfig } from '../config/load.ts'
import type { Plugin } from './plugin.ts'
import type { StandardIssue } from './standard-schema.ts'

/**
 * Checks each plugin's block of the configuration with the plugin's own schema.
 *
 * @returns what each plugin gets as its configuration, by id
 * @throws ConfigError with the problems of all plugins in one message
 */
export async function pluginConfigs(
  plugins: readonly Plugin[],
  loaded: Pick<LoadedConfig, 'config' | 'path' | 'problemAt'>,
): Promise<ReadonlyMap<string, unknown>> {
  const { blocks } = loaded.config.plugins
  const configs = new Map<string, unknown>()
  const problems: ConfigProblem[] = []
  for (const { id, configSchema } of plugins) {
    const block: unknown = Object.hasOwn(blocks, id) ? (blocks[id] ?? {}) : {}
    if (configSchema === undefined) {
      configs.set(id, block)
      continue
    }
    const result = await configSchema['~standard'].validate(block)
    if (result.issues === undefined) configs.set(id, result.value)
    for (const issue of result.issues ?? []) {
      problems.push(loaded.problemAt(['plugins', id, ...pathOf(issue)], issue.message))
    }
  }
  if (problems.length > 0) throw new ConfigError(loaded.path ?? 'configuration', problems)
  return configs
}

function pathOf({ path = [] }: StandardIssue): ConfigPath {
  return path.map((part) => {
    const key = typeof part === 'object' ? part.key : part
    return typeof key === 'number' ? key : String(key)
  })
}
