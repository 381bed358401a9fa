import { formatConfigPath, type ConfigPath, type ConfigProblem } from './config-problem.ts'
import { nearName } from './near-name.ts'
import { NOT_A_MAP } from './schema-keys.ts'
import type { SchemaNode } from './schema-tree.ts'

/** Values without the keys that no schema knows, and a problem for each of those. */
export interface KnownKeys {
  readonly value: unknown
  readonly problems: readonly ConfigProblem[]
}

/** Takes out every key that the schema doesn't name, at every depth, and lists where a block belongs. Blocks that are open keep all of theirs. */
export function takeKnownKeys(root: SchemaNode, value: unknown): KnownKeys {
  const problems: ConfigProblem[] = []
  const visit = (node: SchemaNode, given: unknown, path: ConfigPath): unknown => {
    if (node.note !== undefined || typeof given !== 'object' || given === null) return given
    if (Array.isArray(given)) {
      // The schema would take a list for a map without keys.
      problems.push({ path, message: NOT_A_MAP })
      return undefined
    }
    const known: Record<string, unknown> = {}
    for (const [name, child] of Object.entries(given)) {
      const entry = node.entries.get(name)
      if (entry !== undefined) known[name] = visit(entry, child, [...path, name])
      else if (node.open) known[name] = child
      else problems.push({ path: [...path, name], message: `unknown key${suggestion(root, node, path, name)}` })
    }
    return known
  }
  return { value: visit(root, value, []), problems }
}

/** A near name beside it, else the same name where it belongs. */
function suggestion(root: SchemaNode, node: SchemaNode, path: ConfigPath, name: string): string {
  const near = nearName(name, node.entries.keys())
  if (near !== undefined) return `; did you mean ${formatConfigPath([...path, near])}?`
  for (const [elsewhere] of schemaPaths(root)) {
    if (elsewhere.at(-1) === name) return `; did you mean ${formatConfigPath(elsewhere)}?`
  }
  return ''
}

/** Every block and key of the schema. */
function* schemaPaths(node: SchemaNode, path: readonly string[] = []): Generator<[readonly string[], SchemaNode]> {
  for (const [name, child] of node.entries) {
    yield [[...path, name], child]
    yield* schemaPaths(child, [...path, name])
  }
}
