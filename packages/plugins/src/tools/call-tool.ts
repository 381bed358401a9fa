import type { EventMap, NexusEvent, PluginBus } from '@nexus/engine'

type Invocation = EventMap['tool.invoke']
type Result = EventMap['tool.result']

/** A tool as models are told of it. */
export interface ToolDescription {
  name: string
  description: string
  /** JSON Schema of its arguments. */
  parameters: object
}

/** Calls tools by `tool.invoke` and finds their `tool.result`s; knows which tools there are. */
export class ToolCalls {
  readonly #tools = new Map<string, ToolDescription>()
  readonly #results = new Map<string, Result | undefined>()

  constructor(bus: PluginBus) {
    bus.subscribe('tool.register', ({ payload: { name, description, parameters } }) => {
      this.#tools.set(name, { name, description, parameters })
    })
    bus.subscribe('tool.result', ({ payload }) => {
      if (this.#results.has(payload.id) && this.#results.get(payload.id) === undefined) {
        this.#results.set(payload.id, payload)
      }
    })
  }

  get tools(): ToolDescription[] {
    return [...this.#tools.values()]
  }

  /**
   * Asks the gates, calls the tool, and resolves with its result. A call that is refused, that no plugin knows, or whose
   * plugin failed, has a result that says so: the model can go on with it.
   */
  async call(via: NexusEvent, invocation: Invocation): Promise<Result> {
    const { id, name, turn_id } = invocation
    const fail = async (error: string): Promise<Result> => {
      const result: Result = { id, name, error, ...(turn_id === undefined ? {} : { turn_id }) }
      await via.emit('tool.result', result)
      return result
    }
    const { vetoed, reason } = await via.emitVetoable('before:tool.invoke', invocation)
    if (vetoed) return await fail(`refused: ${reason ?? 'no reason was given'}`)
    const failures: unknown[] = []
    this.#results.set(id, undefined)
    try {
      await via.emit('tool.invoke', invocation, { onFailure: (error) => void failures.push(error) })
      const result = this.#results.get(id)
      if (result !== undefined) return result
    } finally {
      this.#results.delete(id)
    }
    if (failures.length > 0) {
      const [first] = failures
      return await fail(first instanceof Error ? first.message : String(first))
    }
    const known = [...this.#tools.keys()].join(', ') || 'none'
    return await fail(
      this.#tools.has(name) ? 'the tool gave no result' : `there is no tool "${name}"; there are: ${known}`,
    )
  }
}
