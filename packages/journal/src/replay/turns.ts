import type { JournalEnvelope } from '../format/record.ts'

/** Events that tell where turns begin and end, and which tool calls in them were answered. */
export const TURN_TYPES: ReadonlySet<string> = new Set([
  'io.input',
  'agent.turn.start',
  'agent.turn.end',
  'tool.invoke',
  'tool.result',
])

/**
 * Follows inputs and turns through a journal. A turn is partial when it was started and no turn ended after that; the
 * input of a turn is the one that came before its start.
 */
export class Turns {
  /** Inputs whose turn ended, in order. */
  readonly completedInputs: JournalEnvelope[] = []
  /** Seq of the last `agent.turn.end`; 0 for none. */
  lastTurnBoundary = 0
  /** Inputs that no turn has taken up. */
  #waiting: JournalEnvelope[] = []
  /** Inputs of turns that were started and have not ended. */
  #taken: JournalEnvelope[] = []
  /** Tool calls of the turn under way that have no result yet, by call id. */
  readonly #unanswered = new Map<unknown, JournalEnvelope>()
  #open = false

  get isPartialTurn(): boolean {
    return this.#open
  }

  /** The input of the turn that never ended, if it had one. */
  get partialInput(): JournalEnvelope | undefined {
    return this.#open ? this.#taken.at(-1) : undefined
  }

  /** The `tool.invoke` events of the turn that never ended that have no `tool.result`, in order. */
  get unansweredCalls(): JournalEnvelope[] {
    return this.#open ? [...this.#unanswered.values()] : []
  }

  /** Takes the next event, in order of seq. Other types are passed over. */
  add(event: JournalEnvelope): void {
    switch (event.type) {
      case 'io.input':
        this.#waiting.push(event)
        break
      case 'agent.turn.start':
        this.#open = true
        this.#taken.push(...this.#waiting.splice(0))
        break
      case 'agent.turn.end':
        this.#end(event)
        break
      case 'tool.invoke':
        this.#unanswered.set(callId(event), event)
        break
      case 'tool.result':
        this.#unanswered.delete(callId(event))
        break
    }
  }

  #end(event: JournalEnvelope): void {
    this.lastTurnBoundary = event.seq
    // An end without a start still answers what was asked before it.
    this.completedInputs.push(...(this.#open ? this.#taken.splice(0) : this.#waiting.splice(0)))
    this.#open = false
    this.#unanswered.clear()
  }
}

function callId({ payload }: JournalEnvelope): unknown {
  return typeof payload === 'object' && payload !== null && 'id' in payload ? payload.id : undefined
}
