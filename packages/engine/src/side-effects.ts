/** Types whose handlers act on the world outside the session. */
const SIDE_EFFECT_TYPES: ReadonlySet<string> = new Set([
  'llm.request',
  'llm.response',
  'tool.invoke',
  'tool.result',
  'shell.execute',
  'file.write',
  'code.execute',
  'rag.ingest',
  'embeddings.embed',
])
const SIDE_EFFECT_FAMILIES: readonly string[] = ['hitl.', 'web.', 'vector.']

/** Whether an event of this type stands for an effect outside the session: replay answers it from the journal instead. */
export function isSideEffect(type: string): boolean {
  return SIDE_EFFECT_TYPES.has(type) || SIDE_EFFECT_FAMILIES.some((family) => type.startsWith(family))
}

/**
 * Whether the event must be with the kernel before its first handler runs, so that a process that dies in a handler leaves
 * it on disk: input, turn boundaries, and everything that acts outside.
 */
export function isWrittenAhead(type: string): boolean {
  return type === 'io.input' || type.startsWith('agent.turn.') || isSideEffect(type)
}
