import { NexusError } from '@nexus/engine'
import * as v from 'valibot'
import { isMessage, type Message } from '../message.ts'
import type { LlmRequest, LlmResponse } from './answer-requests.ts'

const count = v.pipe(v.number(), v.integer(), v.minValue(0))
const step = v.strictObject({
  content: v.optional(v.string(), ''),
  tool_calls: v.optional(v.array(v.strictObject({ name: v.string(), arguments: v.optional(v.unknown(), {}) }))),
  /** Default: a token for every four characters. */
  usage: v.optional(v.strictObject({ prompt_tokens: count, completion_tokens: count })),
  cost_usd: v.optional(v.pipe(v.number(), v.minValue(0))),
})
const entry = v.strictObject({
  /** What the user said: the whole text, or between slashes a regular expression. Absent: anything. */
  input: v.optional(v.string()),
  /** The answers of one turn, in order: those with calls of tools first, then the one that ends it. */
  steps: v.pipe(v.array(step), v.minLength(1)),
})

/** The answers of a scripted model. The first entry whose `input` fits what the user said last is the one that counts. */
export type Script = readonly {
  input?: string | undefined
  steps: {
    content: string
    tool_calls?: { name: string; arguments: unknown }[] | undefined
    usage?: { prompt_tokens: number; completion_tokens: number } | undefined
    cost_usd?: number | undefined
  }[]
}[]

export const scriptSchema: v.GenericSchema<unknown, Script> = v.array(entry)

const CHARACTERS_PER_TOKEN = 4
const tokensOf = (characters: number): number => Math.ceil(characters / CHARACTERS_PER_TOKEN)

/**
 * What the script says to a request. `{{input}}` in its texts is what the user said, `{{1}}` a group of the expression.
 *
 * @throws NexusError `NOT_FOUND` when no entry fits, or when its steps are used up
 */
export function scriptedAnswer(entries: Script, { model, messages, turn_id }: LlmRequest): LlmResponse {
  const conversation = messages.filter(isMessage)
  const asked = conversation.findLastIndex(({ role }) => role === 'user')
  const input = conversation[asked]?.content ?? ''
  const at = conversation.slice(asked + 1).filter(({ role }) => role === 'assistant').length
  for (const { input: pattern, steps } of entries) {
    const groups = matched(pattern, input)
    if (groups === undefined) continue
    const found = steps[at]
    if (found === undefined) throw nothingFor(`step ${at + 1}`, input)
    const fill = (text: string): string =>
      text.replaceAll(/\{\{(input|\d)\}\}/g, (_, name: string) =>
        name === 'input' ? input : (groups[Number(name)] ?? ''),
      )
    const content = fill(found.content)
    const calls = (found.tool_calls ?? []).map(({ name, arguments: args }, index) => ({
      id: `call-${typeof turn_id === 'string' ? turn_id : 'x'}-${at + 1}-${index + 1}`,
      name: fill(name),
      arguments: filled(args, fill),
    }))
    const usage = found.usage ?? estimate(conversation, content + JSON.stringify(calls))
    return {
      content,
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      usage: { ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens },
      ...(found.cost_usd === undefined ? {} : { cost_usd: found.cost_usd }),
      model: model === '' ? 'scripted' : model,
      finish_reason: calls.length === 0 ? 'stop' : 'tool_calls',
    }
  }
  throw nothingFor('entry', input)
}

function matched(pattern: string | undefined, input: string): readonly string[] | undefined {
  if (pattern === undefined) return []
  const expression = /^\/(.*)\/$/s.exec(pattern)?.[1]
  if (expression === undefined) return pattern === input ? [] : undefined
  return new RegExp(expression, 's').exec(input) ?? undefined
}

/** The same value with every text in it filled. */
function filled(value: unknown, fill: (text: string) => string): unknown {
  if (typeof value === 'string') return fill(value)
  if (Array.isArray(value)) return value.map((each) => filled(each, fill))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, filled(each, fill)]))
}

function estimate(
  conversation: readonly Message[],
  answer: string,
): { prompt_tokens: number; completion_tokens: number } {
  const asked = conversation.reduce((sum, { content }) => sum + content.length, 0)
  return { prompt_tokens: tokensOf(asked), completion_tokens: tokensOf(answer.length) }
}

function nothingFor(what: string, input: string): NexusError {
  return new NexusError('NOT_FOUND', `the script has no ${what} for the input ${JSON.stringify(input)}: add it`, {
    op: 'llm.scripted',
  })
}
