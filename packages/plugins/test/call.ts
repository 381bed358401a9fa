import type { Engine } from '@nexus/engine'

let lastCall = 0

/** Calls a tool as an agent does, and gives its result. */
export async function call(
  engine: Engine,
  name: string,
  args: unknown,
  turnId?: string,
): Promise<{ output?: unknown; error?: string }> {
  const id = `call-${++lastCall}`
  let result: { output?: unknown; error?: string } = { error: 'no result' }
  const unsubscribe = engine.bus.subscribe('tool.result', ({ payload }) => {
    const { output, error } = payload
    if (payload.id === id)
      result = { ...(output === undefined ? {} : { output }), ...(error === undefined ? {} : { error }) }
  })
  await engine.bus.emit('tool.invoke', {
    id,
    name,
    arguments: args,
    ...(turnId === undefined ? {} : { turn_id: turnId }),
  })
  unsubscribe()
  return result
}
