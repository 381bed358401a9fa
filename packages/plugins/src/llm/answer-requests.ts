import type { EventMap, PluginContext } from '@nexus/engine'
import * as v from 'valibot'
import type { TurnSignals } from '../turn/turn-signals.ts'

/** A request to a model, as `llm.request` carries it. */
export type LlmRequest = EventMap['llm.request']

/** The answer, as `llm.response` carries it. */
export type LlmResponse = EventMap['llm.response']

/** A piece of an answer that is being written. Pieces are not journaled: the whole answer is, in `llm.response`. */
export interface LlmDelta {
  /** Role of the request. */
  role: string
  turnId: string | undefined
  text: string
  /** The answer is begun anew: the pieces before this one don't count. */
  restarted?: true
}

/** What the program around a model plugin may bring. */
export interface ModelOptions {
  /** Called with each piece of text as it arrives. What it throws is the answer's failure. */
  onDelta?: ((delta: LlmDelta) => void) | undefined
  /** Keys of the plugin's block that hold where the block doesn't set them: a key for the API, for instance. */
  defaults?: Readonly<Record<string, unknown>>
}

/** A schema whose values begin with what the program set. */
export function withDefaults<T>(
  schema: v.GenericSchema<unknown, T>,
  defaults: Readonly<Record<string, unknown>> = {},
): v.GenericSchema<unknown, T> {
  return v.pipe(
    v.unknown(),
    v.transform((block) => (typeof block === 'object' ? { ...defaults, ...block } : block)),
    schema,
  )
}

/** What a model is given besides the request. */
export interface AnswerContext {
  signal: AbortSignal
  turnId: string | undefined
  /** Passes a piece of the answer on. */
  write: (text: string) => void
  /** Says that the answer is begun anew. */
  restart: () => void
}

/**
 * Makes a plugin answer `llm.request` events: of the roles it is configured for, or of all. A request of a turn that is
 * cancelled stays without an answer.
 */
export function answerRequests(
  { bus }: Pick<PluginContext, 'bus'>,
  signals: TurnSignals,
  { roles, onDelta }: Pick<ModelOptions, 'onDelta'> & { roles: readonly string[] | undefined },
  answer: (request: LlmRequest, context: AnswerContext) => Promise<LlmResponse>,
): void {
  bus.subscribe('llm.request', async (event) => {
    const { role, turn_id } = event.payload
    if (roles !== undefined && !roles.includes(role)) return
    const turnId = typeof turn_id === 'string' ? turn_id : undefined
    const signal = signals.of(turnId)
    let response: LlmResponse
    try {
      signal.throwIfAborted()
      response = await answer(event.payload, {
        signal,
        turnId,
        write: (text) => onDelta?.({ role, turnId, text }),
        restart: () => onDelta?.({ role, turnId, text: '', restarted: true }),
      })
    } catch (error) {
      if (signal.aborted) return
      throw error
    }
    await event.emit('llm.response', response)
  })
}
