import {
  type EventMap,
  isNexusError,
  NexusError,
  type NexusEvent,
  type Plugin,
  type PluginContext,
} from '@nexus/engine'
import * as v from 'valibot'
import {
  assistantMessage,
  isMessage,
  type Message,
  type ToolCall,
  toolMessage,
  userMessage,
  withPairedCalls,
} from '../message.ts'
import { ModelCalls } from '../llm/ask-model.ts'
import { ToolCalls } from '../tools/call-tool.ts'
import { TurnSignals } from '../turn/turn-signals.ts'

const schema = v.strictObject({
  /** Name of the model. Empty: the plugin that talks to it decides. */
  model: v.optional(v.string(), ''),
  /** Said to the model before the conversation. */
  system_prompt: v.optional(v.string(), ''),
  /** How often a turn may ask the model. */
  max_iterations: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 25),
  /** An input that comes while another one is being dealt with waits, or is refused. */
  second_input: v.optional(v.picklist(['wait', 'refuse']), 'wait'),
})
type Config = v.InferOutput<typeof schema>

/** On `before:io.input`: before the engine's own gates. */
const GATE_PRIORITY = 60
const BUSY = { vetoed: true, reason: 'a turn is under way: wait for it, or cancel it' } as const

/** How long what works for a turn may take to notice that it was cancelled; then the turn ends without it. */
const CANCEL_GRACE_MS = 1000

/**
 * `nexus.agent.loop`: answers an input by asking a model, running the tools that it calls, and asking again, until it
 * answers without a call. One turn at a time. A turn always ends: one that fails or is cancelled says why in `error` of its
 * `agent.turn.end`, and a failure is in the outcome of `submitInput`.
 *
 * @see docs/guides/standard-plugins.md
 */
export function agentLoop(): Plugin {
  let loop: AgentLoop | undefined
  const plugin: Plugin<Config> = {
    id: 'nexus.agent.loop',
    name: 'Agent loop',
    version: '1.0.0',
    configSchema: schema,
    init(context) {
      loop = new AgentLoop(context)
    },
    shutdown: () => loop?.close(),
  }
  return plugin
}

class AgentLoop {
  readonly #context: PluginContext<Config>
  readonly #signals: TurnSignals
  readonly #models: ModelCalls
  readonly #calls: ToolCalls
  #history: Message[] = []
  /** Settles when every input so far has been dealt with. */
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #closed = false

  constructor(context: PluginContext<Config>) {
    this.#context = context
    const { bus, config } = context
    this.#signals = new TurnSignals(bus)
    this.#models = new ModelCalls(bus)
    this.#calls = new ToolCalls(bus)
    bus.subscribe('io.history.replay', ({ payload }) => {
      this.#history = payload.messages.filter(isMessage)
    })
    if (config.second_input === 'refuse') {
      bus.subscribe('before:io.wait', () => BUSY, { priority: GATE_PRIORITY })
      // An input that a program puts on the bus by itself waits nowhere.
      bus.subscribe('before:io.input', () => (this.#waiting === 0 ? undefined : BUSY), { priority: GATE_PRIORITY })
    }
    bus.subscribe('io.input', (event) => this.#queue(event))
  }

  close(): void {
    this.#closed = true
    this.#signals.close()
  }

  #queue(event: NexusEvent<EventMap['io.input']>): Promise<void> {
    this.#waiting++
    const turn = this.#last.then(() => this.#turn(event)).finally(() => void this.#waiting--)
    this.#last = turn.catch(() => undefined)
    return turn
  }

  async #turn(event: NexusEvent<EventMap['io.input']>): Promise<void> {
    if (this.#closed) return
    const { session } = this.#context
    // The number of a turn that was interrupted is given again: what it left in the history is replaced.
    const turn = { turn_id: `turn-${session.meta().turnCount + 1}`, session_id: session.id }
    const history = this.#history.filter((message) => message.turn_id !== turn.turn_id)
    await event.emit('agent.turn.start', turn)
    this.#history = [...history, userMessage(event.payload, turn.turn_id)]
    const signal = this.#signals.of(turn.turn_id)
    let failure: { error: unknown } | undefined
    try {
      await this.#work(event, turn.turn_id, signal)
    } catch (error) {
      failure = { error }
    }
    // A closing session is no end of the turn: the next run takes it up again.
    if (this.#closed) return
    await event.emit('agent.turn.end', failure === undefined ? turn : { ...turn, error: messageOf(failure.error) })
    if (failure !== undefined && !isNexusError(failure.error, 'ABORTED')) throw failure.error
  }

  async #work(event: NexusEvent, turnId: string, signal: AbortSignal): Promise<void> {
    const { max_iterations: maxIterations } = this.#context.config
    for (let iteration = 1; iteration <= maxIterations; iteration++) {
      const answer = assistantMessage(await this.#ask(event, turnId, signal), turnId)
      this.#history.push(answer)
      if (answer.tool_calls === undefined) {
        await event.emit('io.output', { content: answer.content, role: 'assistant', turn_id: turnId })
        return
      }
      for (const call of answer.tool_calls) await this.#run(event, call, turnId, signal)
    }
    throw new NexusError(
      'PRECONDITION',
      `the turn asked the model ${maxIterations} times and was not done: raise max_iterations of nexus.agent.loop`,
      { op: 'agent.turn', key: turnId },
    )
  }

  async #ask(event: NexusEvent, turnId: string, signal: AbortSignal): Promise<EventMap['llm.response']> {
    const { model, system_prompt: prompt } = this.#context.config
    const system: Message[] = prompt === '' ? [] : [{ role: 'system', content: prompt }]
    const { tools } = this.#calls
    const request = {
      role: 'main',
      model,
      messages: [...system, ...withPairedCalls(this.#history)],
      ...(tools.length === 0 ? {} : { tools }),
      turn_id: turnId,
    }
    const { vetoed, reason } = await event.emitVetoable('before:llm.request', request)
    if (vetoed)
      throw new NexusError('PRECONDITION', reason ?? 'the request to the model was refused', { op: 'llm.request' })
    signal.throwIfAborted()
    try {
      return await orCancelled(this.#models.ask(event, request), signal)
    } finally {
      // What a cancelled request threw or lacked is no failure of its own.
      signal.throwIfAborted()
    }
  }

  async #run(
    event: NexusEvent,
    { id, name, arguments: args }: ToolCall,
    turnId: string,
    signal: AbortSignal,
  ): Promise<void> {
    signal.throwIfAborted()
    const call = this.#calls.call(event, { id, name, arguments: args, turn_id: turnId })
    const result = await orCancelled(call, signal)
    this.#history.push(toolMessage(result, turnId))
    signal.throwIfAborted()
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** What the work gives. Work that doesn't heed the signal is left behind: a turn that is cancelled always ends. */
async function orCancelled<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const over = new AbortController()
  try {
    return await Promise.race([work, cancelled(signal, over.signal)])
  } finally {
    over.abort()
    work.catch(() => undefined)
  }
}

/** Rejects a while after the signal fires; never once it is over. */
function cancelled(signal: AbortSignal, over: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    let timer: NodeJS.Timeout | undefined
    const onAbort = (): void => {
      timer = setTimeout(() => reject(signal.reason as Error), CANCEL_GRACE_MS)
    }
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true, signal: over })
    over.addEventListener('abort', () => clearTimeout(timer), { once: true })
  })
}
