import type { EventMap } from '@nexus/engine'
import type { Message } from '../message.ts'

type Ask = (request: EventMap['llm.request']) => Promise<EventMap['llm.response']>

const INSTRUCTION =
  'Sum up the conversation so far for yourself: what was asked, what was decided and done, which files and facts matter. Be brief.'

/**
 * A shorter conversation: the newest turns that hold at least `keepMessages` messages, whole, and in place of the others a
 * summary when there is somebody to ask.
 */
export async function compacted(messages: readonly Message[], keepMessages: number, ask?: Ask): Promise<Message[]> {
  const from = startOfTurn(messages, messages.length - keepMessages)
  const kept = messages.slice(from)
  if (ask === undefined || from === 0) return kept
  const { content } = await ask({
    role: 'summary',
    model: '',
    messages: [...messages.slice(0, from), { role: 'user', content: INSTRUCTION }],
  })
  return [{ role: 'system', content: `Summary of the conversation before: ${content}` }, ...kept]
}

/** The last place at or before `index` where a user speaks: a turn cut in two would leave results without their calls. */
function startOfTurn(messages: readonly Message[], index: number): number {
  for (let at = Math.min(index, messages.length - 1); at > 0; at--) if (messages[at]?.role === 'user') return at
  return 0
}
