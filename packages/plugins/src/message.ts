import type { EventMap } from '@nexus/engine'
import * as v from 'valibot'

/** A call that a model asks for. */
export interface ToolCall {
  id: string
  name: string
  /** As the model gave them: an object, or the text where that was no JSON. */
  arguments: unknown
}

/** One message of a conversation: a line of `context/conversation.jsonl`. */
export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  /** The turn that it belongs to. */
  turn_id?: string
  /** Of an assistant: the calls it asks for. */
  tool_calls?: ToolCall[]
  /** Of a tool: the call it answers. */
  tool_call_id?: string
  /** Of a tool: its name. */
  name?: string
  /** Of a user: attachments, as they were submitted. */
  files?: readonly unknown[]
}

const toolCall = v.object({ id: v.string(), name: v.string(), arguments: v.unknown() })
const message = v.looseObject({
  role: v.picklist(['system', 'user', 'assistant', 'tool']),
  content: v.string(),
  turn_id: v.optional(v.string()),
  tool_calls: v.optional(v.array(toolCall)),
  tool_call_id: v.optional(v.string()),
})

/** Whether a value read from a file is a message. */
export function isMessage(value: unknown): value is Message {
  return v.is(message, value)
}

/** What the user said. */
export function userMessage({ content, files }: EventMap['io.input'], turnId: string): Message {
  return { role: 'user', content, turn_id: turnId, ...(files === undefined ? {} : { files }) }
}

/** What a model answered. Calls that are malformed are left out. */
export function assistantMessage({ content, tool_calls }: EventMap['llm.response'], turnId: string): Message {
  const calls = (tool_calls ?? []).filter((call): call is ToolCall => v.is(toolCall, call))
  return { role: 'assistant', content, turn_id: turnId, ...(calls.length === 0 ? {} : { tool_calls: calls }) }
}

/** What a tool gave. */
export function toolMessage({ id, name, output, error }: EventMap['tool.result'], turnId: string | undefined): Message {
  const content = error === undefined ? textOf(output) : `Error: ${error}`
  return { role: 'tool', content, tool_call_id: id, name, ...(turnId === undefined ? {} : { turn_id: turnId }) }
}

function textOf(output: unknown): string {
  if (typeof output === 'string') return output
  return output === undefined ? '' : JSON.stringify(output)
}

const UNANSWERED = 'Error: the call was not answered: the turn ended before the tool did'

/**
 * The same conversation with every call of a tool followed by exactly one result, as providers demand it: a turn that failed,
 * or was cut short, leaves calls without one. Results without a call are left out.
 */
export function withPairedCalls(messages: readonly Message[]): Message[] {
  const results = new Map<string, Message>()
  for (const each of messages) if (each.tool_call_id !== undefined) results.set(each.tool_call_id, each)
  return messages.flatMap((each): Message[] => {
    if (each.role === 'tool') return []
    const answers = (each.tool_calls ?? []).map(
      ({ id, name }): Message => results.get(id) ?? { role: 'tool', content: UNANSWERED, tool_call_id: id, name },
    )
    return [each, ...answers]
  })
}
