import type { OpenAI } from 'openai'
import { isMessage, type Message } from '../message.ts'
import type { LlmRequest, LlmResponse } from './answer-requests.ts'

type Body = OpenAI.ChatCompletionCreateParamsNonStreaming
type WireCall = { id?: string | undefined; name: string; arguments: string }

/** The body of a request; messages that are none of ours go as they are. */
export function bodyOf(request: LlmRequest, model: string, parameters: Record<string, unknown>): Body {
  const tools = request['tools'] as
    | { name: string; description: string; parameters: Record<string, unknown> }[]
    | undefined
  return {
    ...parameters,
    model: request.model === '' ? model : request.model,
    messages: request.messages.map((each) => (isMessage(each) ? wireMessage(each) : each)) as Body['messages'],
    ...(tools === undefined
      ? {}
      : {
          tools: tools.map(({ name, description, parameters: schema }) => ({
            type: 'function',
            function: { name, description, parameters: schema },
          })),
        }),
  }
}

function wireMessage({ role, content, tool_calls: calls, tool_call_id: answers }: Message): object {
  if (role === 'tool') return { role, content, tool_call_id: answers }
  if (calls === undefined) return { role, content }
  const wireCalls = calls.map(({ id, name, arguments: args }) => ({
    id,
    type: 'function',
    function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
  }))
  return { role, content: content === '' ? null : content, tool_calls: wireCalls }
}

/** What an answer amounts to, put together from the pieces of a stream or from a whole message. */
export class AnswerParts {
  content = ''
  finishReason: string | undefined
  #model: string | undefined
  #usage: OpenAI.CompletionUsage | undefined
  readonly #calls = new Map<number, WireCall>()

  /** Takes a piece; returns the text in it. */
  addChunk({ model, usage, choices }: OpenAI.ChatCompletionChunk): string {
    this.#note(model, usage)
    // A server may give more choices than were asked for; the first is the answer.
    const choice = (choices ?? []).find((each) => (each.index ?? 0) === 0)
    for (const { index, id, function: called } of choice?.delta?.tool_calls ?? []) {
      const call = this.#callAt(index ?? this.#calls.size)
      call.id ??= id
      call.name += called?.name ?? ''
      call.arguments += called?.arguments ?? ''
    }
    this.finishReason = choice?.finish_reason ?? this.finishReason
    const text = choice?.delta?.content ?? ''
    this.content += text
    return text
  }

  /** Takes an answer in one piece. */
  addWhole({ model, usage, choices }: OpenAI.ChatCompletion): string {
    this.#note(model, usage)
    const [choice] = choices ?? []
    for (const [index, call] of (choice?.message?.tool_calls ?? []).entries()) {
      if (call.type === 'function') Object.assign(this.#callAt(index), { id: call.id, ...call.function })
    }
    this.finishReason = choice?.finish_reason
    this.content = choice?.message?.content ?? ''
    return this.content
  }

  /** Characters of everything received so far. */
  get size(): number {
    return [...this.#calls.values()].reduce((sum, call) => sum + call.arguments.length, this.content.length)
  }

  /** @param callIds names a call that came without an id */
  response(
    callIds: (index: number) => string,
    costOf: (usage: OpenAI.CompletionUsage) => number | undefined,
  ): LlmResponse {
    const calls = [...this.#calls.entries()].map(([index, { id, name, arguments: text }]) => ({
      id: id ?? callIds(index),
      name,
      arguments: argumentsOf(text),
    }))
    const usage = this.#usage
    const cost = usage === undefined ? undefined : costOf(usage)
    return {
      content: this.content,
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      ...(usage === undefined ? {} : { usage: { ...usage } }),
      ...(cost === undefined ? {} : { cost_usd: cost }),
      ...(this.#model === undefined ? {} : { model: this.#model }),
      ...(this.finishReason === undefined ? {} : { finish_reason: this.finishReason }),
    }
  }

  #note(model: string | undefined, usage: OpenAI.CompletionUsage | null | undefined): void {
    this.#model ??= model
    this.#usage = usage ?? this.#usage
  }

  #callAt(index: number): WireCall {
    const call = this.#calls.get(index) ?? { name: '', arguments: '' }
    this.#calls.set(index, call)
    return call
  }
}

/** An object where the model gave JSON; else the text, which the tool's schema then refuses in words that the model reads. */
function argumentsOf(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}
