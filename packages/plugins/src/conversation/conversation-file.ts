import { type EventEmitting, isNexusError, type PluginSession } from '@nexus/engine'
import { isMessage, type Message } from '../message.ts'

/** Where the conversation lies in a session. */
export const CONVERSATION_PATH = 'context/conversation.jsonl'

/** The file of a conversation: JSON lines, a message each. */
export class ConversationFile {
  readonly #session: Pick<PluginSession, 'readFile' | 'appendFile' | 'writeFile'>

  constructor(session: Pick<PluginSession, 'readFile' | 'appendFile' | 'writeFile'>) {
    this.#session = session
  }

  /** The messages, and the numbers of the lines that are none. */
  async read(): Promise<{ messages: Message[]; damagedLines: number[] }> {
    const messages: Message[] = []
    const damagedLines: number[] = []
    const text = await this.#text()
    for (const [index, line] of text.split('\n').entries()) {
      if (line === '') continue
      const value = parsed(line)
      if (isMessage(value)) messages.push(value)
      else damagedLines.push(index + 1)
    }
    return { messages, damagedLines }
  }

  /** Adds a message; the file event becomes a child of what is handled. */
  async append(message: Message, via: EventEmitting): Promise<void> {
    await this.#session.appendFile(CONVERSATION_PATH, lineOf(message), { via })
  }

  /** Replaces the whole conversation, atomically. */
  async rewrite(messages: readonly Message[], via: EventEmitting): Promise<void> {
    await this.#session.writeFile(CONVERSATION_PATH, messages.map(lineOf).join(''), { via })
  }

  async #text(): Promise<string> {
    try {
      return (await this.#session.readFile(CONVERSATION_PATH)).toString('utf8')
    } catch (error) {
      if (isNexusError(error, 'NOT_FOUND')) return ''
      throw error
    }
  }
}

function lineOf(message: Message): string {
  return `${JSON.stringify(message)}\n`
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line) as unknown
  } catch {
    return undefined
  }
}
