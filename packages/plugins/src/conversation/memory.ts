import type { EventEmitting, EventMap, NexusEvent, Plugin, PluginContext } from '@nexus/engine'
import * as v from 'valibot'
import { ModelCalls } from '../llm/ask-model.ts'
import { FIRST } from '../turn/turn-signals.ts'
import { CONVERSATION_PATH, ConversationFile } from './conversation-file.ts'
import { compacted } from './compaction.ts'
import { assistantMessage, type Message, toolMessage, userMessage } from '../message.ts'

const schema = v.strictObject({
  /** Above this many messages the conversation is compacted at the end of the turn; 0: never. */
  max_messages: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0)), 0),
  /** How many of the newest messages a compaction keeps at least; whole turns are kept. */
  keep_messages: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 40),
  /** Whether a model sums up what a compaction takes away (`llm.request` with role `summary`). */
  summarize: v.optional(v.boolean(), false),
})
type Config = v.InferOutput<typeof schema>

// Inputs that no agent takes up are forgotten at this number, oldest first.
const MAX_INPUTS = 256

/**
 * `nexus.memory.conversation`: keeps the conversation in `context/conversation.jsonl`, a message per line, appended as they
 * come. When a session is resumed, or the conversation was compacted, it is told with `io.history.replay`. Lines that are
 * damaged are passed over, with a warning.
 *
 * @see docs/guides/standard-plugins.md
 */
export function conversationMemory(): Plugin {
  let memory: ConversationMemory
  const plugin: Plugin<Config> = {
    id: 'nexus.memory.conversation',
    name: 'Conversation memory',
    version: '1.0.0',
    configSchema: schema,
    async init(context) {
      memory = new ConversationMemory(context)
      await memory.load()
    },
    ready: () => memory.replay(),
  }
  return plugin
}

class ConversationMemory {
  readonly #context: PluginContext<Config>
  readonly #file: ConversationFile
  readonly #models: ModelCalls
  #messages: Message[] = []
  /** Inputs that no turn has taken up, by the id of their event. */
  readonly #inputs = new Map<string, EventMap['io.input']>()
  /** Requests whose answer belongs to the conversation, with their turns. */
  readonly #requests = new Map<string, string>()
  /** Calls that the conversation asked for and that have no result yet. */
  readonly #openCalls = new Set<string>()

  constructor(context: PluginContext<Config>) {
    this.#context = context
    const { bus, session } = context
    this.#file = new ConversationFile(session)
    this.#models = new ModelCalls(bus)
    bus.subscribe('io.input', ({ id, payload }) => this.#noteInput(id, payload), { priority: FIRST })
    bus.subscribe('agent.turn.start', (event) => this.#beginTurn(event))
    bus.subscribe(
      'llm.request',
      ({ id, payload: { role, turn_id } }) => {
        if (role === 'main' && typeof turn_id === 'string') this.#requests.set(id, turn_id)
      },
      { priority: FIRST, observes: true },
    )
    bus.subscribe('llm.response', (event) => this.#answered(event))
    bus.subscribe('tool.result', (event) => this.#toolAnswered(event))
    bus.subscribe('agent.turn.end', (event) => this.#endTurn(event))
  }

  async load(): Promise<void> {
    const { messages, damagedLines } = await this.#file.read()
    this.#messages = messages
    for (const message of messages) {
      for (const { id } of message.tool_calls ?? []) this.#openCalls.add(id)
      if (message.tool_call_id !== undefined) this.#openCalls.delete(message.tool_call_id)
    }
    if (damagedLines.length === 0) return
    this.#context.logger.warn(
      { path: CONVERSATION_PATH, lines: damagedLines.slice(0, 10), damaged: damagedLines.length },
      'lines of the conversation are damaged: going on without them',
    )
  }

  async replay(): Promise<void> {
    if (this.#messages.length === 0) return
    // The last run may have been killed between the end of its turn and the compaction. A summary waits for the next turn's
    // end: a boot waits for no model.
    if (this.#isTooLong && !this.#context.config.summarize) await this.#compact(this.#context.bus)
    await this.#context.bus.emit('io.history.replay', { messages: [...this.#messages] })
  }

  #noteInput(id: string, input: EventMap['io.input']): void {
    this.#inputs.set(id, input)
    const [oldest] = this.#inputs.keys()
    if (this.#inputs.size > MAX_INPUTS && oldest !== undefined) this.#inputs.delete(oldest)
  }

  async #beginTurn(event: NexusEvent<EventMap['agent.turn.start']>): Promise<void> {
    const { turn_id } = event.payload
    const input = this.#takeInput(event.causation.parent_id)
    // The turn was interrupted and is begun anew: what it had said is said again.
    const kept = this.#messages.filter((message) => message.turn_id !== turn_id)
    if (kept.length < this.#messages.length) await this.#rewrite(event, kept)
    this.#openCalls.clear()
    if (input !== undefined) await this.#add(event, userMessage(input, turn_id))
  }

  /** The input that a turn answers: the one that it was started through, else the newest. */
  #takeInput(parentId: string | undefined): EventMap['io.input'] | undefined {
    const id = parentId !== undefined && this.#inputs.has(parentId) ? parentId : [...this.#inputs.keys()].at(-1)
    if (id === undefined) return undefined
    const input = this.#inputs.get(id)
    this.#inputs.delete(id)
    return input
  }

  async #answered(event: NexusEvent<EventMap['llm.response']>): Promise<void> {
    const requestId = event.causation.parent_id ?? ''
    const turnId = this.#requests.get(requestId)
    if (turnId === undefined) return
    this.#requests.delete(requestId)
    const message = assistantMessage(event.payload, turnId)
    for (const { id } of message.tool_calls ?? []) this.#openCalls.add(id)
    await this.#add(event, message)
  }

  async #toolAnswered(event: NexusEvent<EventMap['tool.result']>): Promise<void> {
    if (!this.#openCalls.delete(event.payload.id)) return
    await this.#add(event, toolMessage(event.payload, event.payload.turn_id))
  }

  async #endTurn(event: NexusEvent<EventMap['agent.turn.end']>): Promise<void> {
    this.#requests.clear()
    if (!this.#isTooLong || !(await this.#compact(event))) return
    await event.emit('io.history.replay', { messages: [...this.#messages] })
  }

  get #isTooLong(): boolean {
    const { max_messages: maxMessages } = this.#context.config
    return maxMessages > 0 && this.#messages.length > maxMessages
  }

  /** Whether the conversation became shorter. */
  async #compact(via: EventEmitting): Promise<boolean> {
    const { keep_messages: keepMessages, summarize } = this.#context.config
    const ask = summarize ? (request: EventMap['llm.request']) => this.#models.ask(via, request) : undefined
    const messages = await compacted(this.#messages, keepMessages, ask)
    if (messages.length >= this.#messages.length) return false
    await this.#rewrite(via, messages)
    return true
  }

  async #add(event: NexusEvent, message: Message): Promise<void> {
    this.#messages.push(message)
    await this.#file.append(message, event)
  }

  async #rewrite(via: EventEmitting, messages: Message[]): Promise<void> {
    this.#messages = messages
    await this.#file.rewrite(messages, via)
  }
}
