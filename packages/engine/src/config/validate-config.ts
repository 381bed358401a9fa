import * as v from 'valibot'
import { CONFIG_KEYS, configRows, isConfigKey, outputName, type ConfigBlock, type ConfigKey } from './config-keys.ts'
import { ConfigError, formatConfigPath, type ConfigPath, type ConfigProblem } from './document/problem.ts'
import type { EngineConfig } from './engine-config.ts'
import type { PathBase } from './file-path.ts'
import { nearName } from './near-name.ts'
import { objectStoreProblems } from './object-store-rules.ts'
import { isMap, NOT_A_MAP, valueSchema } from './value-schema.ts'
import { pathKey, type ConfigDocument } from './document/yaml-document.ts'

/** What can't be seen from the text of a configuration. */
export interface ValidationOptions extends PathBase {
  /** The embedder brings a backend himself: `core.object_store` then needs neither a name nor a bucket. */
  readonly backendGiven: boolean
  /** False for the YAML that an object was turned into: its lines would only confuse. */
  readonly showPositions: boolean
}

/** A configuration, and what its author should know although it is in force. */
export interface ValidConfig {
  readonly config: EngineConfig
  readonly warnings: readonly string[]
}

/**
 * Checks a document against the table of keys and the rules between them.
 *
 * @throws ConfigError naming everything that is wrong
 */
export function validateConfig(document: ConfigDocument, label: string, options: ValidationOptions): ValidConfig {
  const validation = new Validation(document, options)
  const config = validation.run()
  if (validation.problems.length === 0) return { config, warnings: validation.warnings }
  const isMissing = validation.problems.every(({ code }) => code === 'DRIVER_MISSING')
  const located = validation.problems.map(({ path, message, position = document.locate(path) }) =>
    options.showPositions ? { path, message, position } : { path, message },
  )
  throw new ConfigError(label, located, isMissing ? 'DRIVER_MISSING' : 'INVALID_ARGUMENT')
}

class Validation {
  readonly problems: ConfigProblem[]
  readonly warnings: string[] = []
  readonly #document: ConfigDocument
  readonly #options: ValidationOptions

  constructor(document: ConfigDocument, options: ValidationOptions) {
    this.#document = document
    this.#options = options
    this.problems = [...document.problems]
  }

  /** What it returns is whole only without problems. */
  run(): EngineConfig {
    const { value } = this.#document
    const { core, ...rest } = this.#block(CONFIG_KEYS, value, []) as unknown as EngineConfig
    const store = configAt(value, ['core', 'object_store'])
    this.problems.push(...objectStoreProblems(store, this.#document, this.#options.backendGiven))
    const { poolMaxIdle, poolMaxOpen } = core.storage
    if (poolMaxIdle > poolMaxOpen && isWritten(configAt(value, ['core', 'storage', 'pool_max_idle']))) {
      this.#refuse(['core', 'storage', 'pool_max_idle'], 'must be at most core.storage.pool_max_open')
    }
    return {
      ...rest,
      core: {
        ...core,
        sessions: {
          ...core.sessions,
          retentionExplicit: isWritten(configAt(value, ['core', 'sessions', 'retention'])),
        },
        storage: { ...core.storage, poolMaxIdle: Math.min(poolMaxIdle, poolMaxOpen) },
        objectStore: core.objectStore?.backend === '' && !this.#options.backendGiven ? undefined : core.objectStore,
      },
    }
  }

  #block(block: ConfigBlock, given: unknown, path: ConfigPath): Record<string, unknown> {
    if (isWritten(given) && !isMap(given)) this.#refuse(path, NOT_A_MAP + this.#found(path))
    const values = isMap(given) ? given : {}
    const output: Record<string, unknown> = {}
    const others: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(values)) {
      if (name !== '*' && Object.hasOwn(block, name)) continue
      const rest = block['*']
      if (rest === undefined) this.#refuse([...path, name], `unknown key${suggestion(block, path, name)}`)
      // Nothing after the colon of an open key is a value of its own: the plugin is named, and has no settings.
      else others[name] = value === null ? null : this.#value(rest as ConfigKey, value, [...path, name])
    }
    for (const [name, row] of configRows(block)) {
      const at = [...path, name]
      if (name === '*') output[outputName(name, row)] = others
      else if (!isConfigKey(row)) output[outputName(name, row)] = this.#block(row, values[name], at)
      else if (row.kind === 'replaced') this.#replaced(row, values, at, output)
      else output[outputName(name, row)] = this.#value(row, values[name], at)
    }
    return output
  }

  /** The old name comes after the new one in the table, so its value goes over the default. */
  #replaced(
    row: ConfigKey & { readonly kind: 'replaced' },
    values: Record<string, unknown>,
    path: ConfigPath,
    output: Record<string, unknown>,
  ): void {
    const old = values[String(path.at(-1))]
    if (!isWritten(old)) return
    const by = formatConfigPath([...path.slice(0, -1), row.by])
    if (isWritten(values[row.by]))
      return this.#refuse(path, `is the old name of ${by}, which is written too; remove it`)
    output[row.by] = this.#value(row, old, path)
    this.warnings.push(`${formatConfigPath(path)} is the old name of ${by}; write ${by}: ${String(output[row.by])}`)
  }

  #value(key: ConfigKey, given: unknown, path: ConfigPath): unknown {
    const fallback = 'default' in key ? key.default : key.kind === 'map' ? {} : undefined
    const value = isWritten(given) ? this.#typed(key, given, path) : fallback
    if (value === undefined) return undefined
    const result = v.safeParse(valueSchema(key, this.#options), value, { abortPipeEarly: true })
    if (result.success) return result.output
    for (const { path: inside = [], message } of result.issues) {
      const at = [...path, ...inside.map((item) => item.key as string | number)]
      this.#refuse(
        at,
        message.startsWith('must') ? message + this.#found(at, key.kind === 'choice' ? key.of : []) : message,
      )
    }
    return fallback
  }

  /** Variables are text; where the key wants a number or a truth value, a variable that reads like one is one. */
  #typed({ kind }: ConfigKey, given: unknown, path: ConfigPath): unknown {
    if (typeof given !== 'string' || !this.#document.unexpanded.has(pathKey(path))) return given
    if (/^(?:integer|number|mebibytes)$/.test(kind) && /^-?\d+(?:\.\d+)?$/.test(given)) return Number(given)
    return /^(?:boolean|replaced)$/.test(kind) && /^(?:true|false)$/.test(given) ? given === 'true' : given
  }

  /** What stands there instead, and what was probably meant; never what a variable held. */
  #found(path: ConfigPath, words: readonly string[] = []): string {
    const unexpanded = this.#document.unexpanded.get(pathKey(path))
    if (unexpanded !== undefined) return `; what ${unexpanded} gives is not`
    const actual = configAt(this.#document.value, path)
    if (typeof actual !== 'string' && typeof actual !== 'number' && typeof actual !== 'boolean') return ''
    const near = typeof actual === 'string' ? nearName(actual, words) : undefined
    const shown = JSON.stringify(actual)
    const short = shown.length > 60 ? `${shown.slice(0, 57)}..."` : shown
    return `, not ${short}${near === undefined || near === actual ? '' : `; did you mean ${near}?`}`
  }

  #refuse(path: ConfigPath, message: string): void {
    this.problems.push({ path, message })
  }
}

/** A near name beside it, else the same name where it belongs. */
function suggestion(block: ConfigBlock, path: ConfigPath, name: string): string {
  const near = nearName(name, Object.keys(block))
  const meant = near === undefined ? placeOf(name) : [...path, near]
  return meant === undefined ? '' : `; did you mean ${formatConfigPath(meant)}?`
}

/** The first key or block of that name, whatever block it is in. */
function placeOf(name: string, block: ConfigBlock = CONFIG_KEYS, path: ConfigPath = []): ConfigPath | undefined {
  for (const [other, row] of configRows(block)) {
    if (other === name) return [...path, other]
    const inside = isConfigKey(row) ? undefined : placeOf(name, row, [...path, other])
    if (inside !== undefined) return inside
  }
  return undefined
}

/** Nothing after the colon in YAML counts as not written. */
export function isWritten(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** The value at a path, or undefined where the path ends before. */
export function configAt(value: unknown, path: ConfigPath): unknown {
  let current = value
  for (const part of path) {
    if (typeof current !== 'object' || current === null || !Object.hasOwn(current, part)) return undefined
    current = (current as Record<string | number, unknown>)[part]
  }
  return current
}
