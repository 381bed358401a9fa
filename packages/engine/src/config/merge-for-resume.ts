import { configKeys, outputPath } from './config-keys.ts'
import type { ConfigPath } from './document/problem.ts'
import type { EngineConfig } from './engine-config.ts'
import type { Environment } from './document/environment.ts'
import type { LoadedConfig } from './load.ts'
import { decode, loadedConfig } from './read-config.ts'
import { configAt, isWritten } from './validate-config.ts'
import { isMap } from './value-schema.ts'
import { pathKey, readYaml, type ConfigDocument } from './document/yaml-document.ts'

/** Keys whose value a resumed session brings. */
const SESSION_KEYS: readonly (readonly string[])[] = [...configKeys()]
  .filter(([, { whose }]) => whose === 'session')
  .map(([path]) => path)

/**
 * What a resumed session runs under: the given configuration, with the keys that the table calls the session's as the
 * snapshot in the session's tree writes them.
 *
 * Tools can write into that tree, and it may come from another host. So nothing else of the snapshot is looked at, and its
 * variables are filled in only where the given configuration names the same variable in the same block; elsewhere the
 * reference stays as it is written, with a warning.
 *
 * @param path of the snapshot, for messages
 * @throws ConfigError when the snapshot is no YAML, or the value of a key that is the session's is wrong
 */
export function mergeForResume(
  given: LoadedConfig,
  snapshot: string | Uint8Array,
  path: string,
  environment: Environment = process.env,
): LoadedConfig {
  const text = decode(snapshot, path)
  const named = new Set<string>()
  readYaml(given.text, { environment: {}, mayExpand: (at, name) => !named.add(inBlock(at, name)) })
  const kept = new Set<string>()
  const document = sessionPart(
    readYaml(text, {
      environment,
      mayExpand: (at, name) => {
        const may = named.has(inBlock(at, name))
        if (!may && isSessions(at)) kept.add(`\${${name}} in ${at.slice(0, 2).join('.')}`)
        return may
      },
    }),
  )
  const own = loadedConfig(document, text, path, {}, true)
  return {
    ...own,
    config: merge(given.config, own.config, document),
    warnings: [...kept].map((what) => `${what} stays as it is written: the given configuration does not name it there`),
    problemAt: (at, message) =>
      (configAt(document.value, at.slice(0, 2)) === undefined ? given : own).problemAt(at, message),
  }
}

/** A key that the session doesn't write is the given configuration's; so is the block of a plugin that it has none of. */
function merge(given: EngineConfig, own: EngineConfig, { value }: ConfigDocument): EngineConfig {
  const config = structuredClone(given)
  for (const path of SESSION_KEYS) {
    const target = outputPath(path)
    const holder = configAt(config, target.slice(0, -1)) as Record<string, unknown>
    const name = target.at(-1) as string
    const theirs = configAt(own, target)
    if (path.at(-1) === '*') holder[name] = { ...(holder[name] as object), ...(theirs as object) }
    else if (isWritten(configAt(value, path))) holder[name] = theirs
  }
  return config
}

/** The document without the values and problems of keys that are the host's. */
function sessionPart(document: ConfigDocument): ConfigDocument {
  const value: Record<string, unknown> = {}
  for (const [block, given] of Object.entries(document.value)) {
    if (!SESSION_KEYS.some(([first]) => first === block)) continue
    value[block] = isMap(given)
      ? Object.fromEntries(Object.entries(given).filter(([name]) => isSessions([block, name])))
      : given
  }
  return { ...document, value, problems: document.problems.filter(({ path }) => isSessions(path)) }
}

/** Whether a path leads to a key that is the session's, or into its value. */
function isSessions(path: ConfigPath): boolean {
  return SESSION_KEYS.some((key) =>
    path.every((part, index) => index >= key.length || key[index] === '*' || key[index] === part),
  )
}

/** A variable within a plugin's block, or within one key of another block. */
function inBlock(path: ConfigPath, name: string): string {
  return pathKey([...path.slice(0, 2), name])
}
