import { ConfigError, type ConfigPath, type ConfigProblem } from './config-problem.ts'
import type { EngineConfig } from './engine-config.ts'
import type { PathBase } from './file-path.ts'
import { nearName } from './near-name.ts'
import { isMissingBackend, objectStoreProblems, type BackendRules } from './object-store-rules.ts'
import { parseValues, rootSchema } from './schema.ts'
import { schemaNodeAt, schemaTree, type SchemaNode } from './schema-tree.ts'
import { takeKnownKeys } from './unknown-keys.ts'
import { pathKey, type ConfigDocument } from './yaml-document.ts'

/**
 * Checks a document against the schema and the rules between keys.
 *
 * @throws ConfigError naming everything that is wrong
 */
export function validateConfig(
  document: ConfigDocument,
  label: string,
  options: PathBase & BackendRules & { readonly checkBackend: boolean; readonly showPositions: boolean },
): EngineConfig {
  const tree = schemaTree(rootSchema())
  const known = takeKnownKeys(tree, withEnvironmentTypes(tree, document))
  const problems: ConfigProblem[] = [...document.problems, ...known.problems]
  const retention = valueAt(known.value, ['core', 'sessions', 'retention'])
  const parsed = parseValues(known.value, {
    ...options,
    retentionExplicit: retention !== undefined && retention !== null,
  })
  if ('issues' in parsed) {
    for (const { path, message } of parsed.issues) {
      const instead = message.startsWith('must') ? found(tree, document, known.value, path) : ''
      problems.push({ path, message: message + instead })
    }
  }
  if (options.checkBackend)
    problems.push(...objectStoreProblems(valueAt(known.value, ['core', 'object_store']), options))
  problems.push(...poolProblems(known.value))
  if ('config' in parsed && problems.length === 0) return parsed.config

  const located = problems.map((problem) =>
    options.showPositions
      ? { ...problem, position: problem.position ?? document.locate(problem.path) }
      : { path: problem.path, message: problem.message },
  )
  const missing = located.every((problem) => isMissingBackend(problem))
  throw new ConfigError(label, located, missing ? 'DRIVER_MISSING' : 'INVALID_ARGUMENT')
}

/** Variables are text; where the schema wants a number or a truth value, a variable that reads like one is one. */
function withEnvironmentTypes(tree: SchemaNode, document: ConfigDocument): unknown {
  const value = structuredClone(document.value) as Record<string, unknown>
  for (const key of document.unexpanded.keys()) {
    const path = key.split('\0')
    const kind = schemaNodeAt(tree, path)?.note?.kind
    const holder = valueAt(value, path.slice(0, -1)) as Record<string, unknown> | undefined
    const name = path.at(-1) as string
    const written = holder?.[name]
    if (holder === undefined || typeof written !== 'string') continue
    if ((kind === 'integer' || kind === 'number') && /^-?\d+(?:\.\d+)?$/.test(written)) holder[name] = Number(written)
    if (kind === 'boolean' && (written === 'true' || written === 'false')) holder[name] = written === 'true'
  }
  return value
}

/** What stands there instead, and what was probably meant; never what a variable held. */
function found(tree: SchemaNode, document: ConfigDocument, value: unknown, path: ConfigPath): string {
  const actual = valueAt(value, path)
  const unexpanded = document.unexpanded.get(pathKey(path))
  if (unexpanded !== undefined) return `; what ${unexpanded} gives is not`
  if (typeof actual !== 'string' && typeof actual !== 'number' && typeof actual !== 'boolean') return ''
  const options = schemaNodeAt(tree, path)?.note?.options ?? []
  const near = typeof actual === 'string' ? nearName(actual, options) : undefined
  const shown = JSON.stringify(actual)
  const short = shown.length > 60 ? `${shown.slice(0, 57)}..."` : shown
  return `, not ${short}${near === undefined ? '' : `; did you mean ${near}?`}`
}

function poolProblems(value: unknown): ConfigProblem[] {
  const path = ['core', 'storage', 'pool_max_idle']
  const idle = valueAt(value, path)
  const open = valueAt(value, ['core', 'storage', 'pool_max_open']) ?? 4
  if (typeof idle !== 'number' || typeof open !== 'number' || idle <= open) return []
  return [{ path, message: `must be at most pool_max_open, which is ${open}` }]
}

function valueAt(value: unknown, path: ConfigPath): unknown {
  let current = value
  for (const part of path) {
    if (typeof current !== 'object' || current === null || !Object.hasOwn(current, part)) return undefined
    current = (current as Record<string | number, unknown>)[part]
  }
  return current
}
