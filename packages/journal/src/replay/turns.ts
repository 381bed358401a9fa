import type { JournalEnvelope } from '../format/record.ts'

/** Events that tell where turns begin and end, which tool calls in them were answered, and that all was done. */
export const TURN_TYPES: ReadonlySet<string> = new Set([
  'io.input',
  'agent.turn.start',
  'agent.turn.end',
  'tool.invoke',
  'tool.result',
  'core.shutdown',
])

/** The source of an input that an engine gives to the agent again, because the turn of the first one never ended. */
export const REFIRED_SOURCE = 'engine.resume'

/** An input whose turn ended, and where the answers of that turn stand. */
export interface CompletedInput {
  input: JournalEnvelope
  /** As the turn's events name it; undefined when they do not. */
  turnId: unknown
  /** Seqs of the turn's start and end. */
  above: number
  upTo: number
  /** Seq up to which what followed from its end stands: the next turn begins behind it. */
  tailTo: number
}

interface OpenedTurn {
  inputs: JournalEnvelope[]
  startSeq: number
}

/**
 * Follows inputs and turns through a journal. A turn is partial when it was started and no turn ended after that; the
 * input of a turn is the one that came before its start. An input counts once it was answered: one whose turn was
 * interrupted does not, and when it is given again only the second one does.
 */
export class Turns {
  readonly completed: CompletedInput[] = []
  /** Seq of the last `agent.turn.end`; 0 for none. */
  lastTurnBoundary = 0
  /** Inputs that no turn has taken up. */
  #waiting: JournalEnvelope[] = []
  /** Turns that were started and have not ended, by id, in the order they were started. */
  readonly #started = new Map<unknown, OpenedTurn>()
  /** Tool calls of the turn under way that have no result yet, by call id. */
  readonly #unanswered = new Map<unknown, JournalEnvelope>()
  #open = false

  get isPartialTurn(): boolean {
    return this.#open
  }

  /** The input that was not answered: of the turn that never ended, or one whose turn had not begun. */
  get partialInput(): JournalEnvelope | undefined {
    const taken = this.#open ? [...this.#started.values()].at(-1)?.inputs.at(-1) : undefined
    return taken ?? this.#waiting.at(-1)
  }

  /** The `tool.invoke` events of the turn that never ended that have no `tool.result`, in order. */
  get unansweredCalls(): JournalEnvelope[] {
    return this.#open ? [...this.#unanswered.values()] : []
  }

  /** Takes the next event, in order of seq. Other types are passed over. */
  add(event: JournalEnvelope): void {
    switch (event.type) {
      case 'io.input':
        if (event.source === REFIRED_SOURCE) this.#waiting = []
        this.#waiting.push(event)
        break
      case 'agent.turn.start':
        this.#open = true
        this.#closeTails(event.seq - 1)
        // Last in the order of starts, also when a turn of that id, or of none, was interrupted and is begun anew.
        this.#started.delete(fieldOf(event, 'turn_id'))
        this.#started.set(fieldOf(event, 'turn_id'), { inputs: this.#waiting.splice(0), startSeq: event.seq })
        break
      case 'agent.turn.end':
        this.#end(event)
        break
      case 'core.shutdown':
        // A program that takes inputs without turns has handled them when it ends in order.
        this.#waiting = []
        break
      case 'tool.invoke':
        this.#unanswered.set(fieldOf(event, 'id'), event)
        break
      case 'tool.result':
        this.#unanswered.delete(fieldOf(event, 'id'))
        break
    }
  }

  #closeTails(at: number): void {
    for (const turn of this.completed.toReversed()) {
      if (turn.tailTo !== Infinity) return
      turn.tailTo = at
    }
  }

  #end(event: JournalEnvelope): void {
    const turnId = fieldOf(event, 'turn_id')
    // An end without a start still answers what was asked before it.
    const started = this.#started.get(turnId)
    const inputs = started?.inputs ?? (this.#open ? [] : this.#waiting.splice(0))
    this.#started.delete(turnId)
    for (const input of inputs) {
      this.completed.push({ input, turnId, above: started?.startSeq ?? input.seq, upTo: event.seq, tailTo: Infinity })
    }
    this.lastTurnBoundary = event.seq
    this.#open = false
    this.#unanswered.clear()
  }
}

/** A field of an event's payload; undefined when it has none of that name. */
export function fieldOf({ payload }: JournalEnvelope, field: string): unknown {
  return typeof payload === 'object' && payload !== null ? (payload as Record<string, unknown>)[field] : undefined
}
