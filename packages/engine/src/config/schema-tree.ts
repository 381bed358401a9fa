import * as v from 'valibot'
import type { KeyNote } from './schema-keys.ts'

/** A block of keys, or one key, as the schema declares it. */
export interface SchemaNode {
  /** Absent for a block. */
  readonly note: KeyNote | undefined
  readonly fallback: unknown
  /** The keys of a block; empty for a key. */
  readonly entries: ReadonlyMap<string, SchemaNode>
  /** Whether a block takes more keys than it names. */
  readonly open: boolean
}

/** The parts of valibot's schemas that are walked; they are public, but typed one by one. */
interface AnySchema {
  readonly wrapped?: v.GenericSchema
  readonly entries?: Readonly<Record<string, v.GenericSchema>>
  readonly rest?: v.GenericSchema
}

/** The keys that a schema declares, at every depth. */
export function schemaTree(schema: v.GenericSchema): SchemaNode {
  const outer = schema as AnySchema & v.GenericSchema
  const inner = (outer.wrapped ?? outer) as AnySchema & v.GenericSchema
  if (inner.entries === undefined) {
    return {
      note: v.getMetadata(inner) as unknown as KeyNote,
      fallback: v.getDefault(outer),
      entries: new Map(),
      open: false,
    }
  }
  const entries = Object.entries(inner.entries).map(([name, entry]) => [name, schemaTree(entry)] as const)
  return { note: undefined, fallback: undefined, entries: new Map(entries), open: inner.rest !== undefined }
}

/** The node at a path, or undefined where the schema ends before. */
export function schemaNodeAt(root: SchemaNode, path: readonly (string | number)[]): SchemaNode | undefined {
  let node: SchemaNode | undefined = root
  for (const part of path) node = node?.entries.get(String(part))
  return node
}

/** Every key below a node, depth first, with the path to it. */
export function* schemaKeys(
  node: SchemaNode,
  path: readonly string[] = [],
): Generator<[readonly string[], SchemaNode]> {
  for (const [name, child] of node.entries) {
    const childPath = [...path, name]
    if (child.note === undefined) yield* schemaKeys(child, childPath)
    else yield [childPath, child]
  }
}
