import { type EventEmitting, type EventMap, NexusError, type PluginBus } from '@nexus/engine'
import { FIRST } from '../turn/turn-signals.ts'

interface Call {
  requestId?: string
  response?: EventMap['llm.response']
}

/** Asks models by `llm.request`, and finds the `llm.response` that answers each request: the one emitted through it. */
export class ModelCalls {
  readonly #calls = new Map<unknown, Call>()

  constructor(bus: PluginBus) {
    bus.subscribe('llm.request', ({ id, payload }) => this.#note(payload, id), { priority: FIRST, observes: true })
    bus.subscribe('llm.response', ({ payload, causation }) => {
      for (const call of this.#calls.values()) {
        if (call.requestId !== undefined && call.requestId === causation.parent_id) call.response ??= payload
      }
    })
  }

  /**
   * Asks, and resolves with the answer.
   *
   * @param via the event being handled, whose child the request becomes
   * @throws what the plugin that talks to the model threw; `PRECONDITION` when no plugin answers
   */
  async ask(via: EventEmitting, request: EventMap['llm.request']): Promise<EventMap['llm.response']> {
    // With its version in place the bus hands this very object to the handlers, which tells concurrent requests apart.
    const payload = { _schema_version: 1 as const, ...request }
    const call: Call = {}
    const failures: unknown[] = []
    this.#calls.set(payload, call)
    try {
      await via.emit('llm.request', payload, { onFailure: (error) => void failures.push(error) })
    } finally {
      this.#calls.delete(payload)
    }
    if (call.response !== undefined) return call.response
    if (failures.length > 0) throw failures[0]
    throw new NexusError(
      'PRECONDITION',
      `no plugin answered the request to a model (role "${request.role}"): activate one such as nexus.llm.openai_compatible`,
      { op: 'llm.request', key: request.role },
    )
  }

  #note(payload: unknown, requestId: string): void {
    const call = this.#calls.get(payload)
    if (call !== undefined) call.requestId = requestId
  }
}
