import { JournalReader, REFIRED_SOURCE, type JournalEnvelope } from '@nexus/journal'

/** What belongs to the run and not to the turn: a replay has a boot of its own, and its files are elsewhere. */
const OF_THE_RUN = /^(?:core\.|session\.|tool\.register$|(?:before:)?io\.wait$)/

/** Events before an input that may turn out to belong to its gates; older ones don't. */
const MAX_LOOSE = 256

/** A piece of a journal that a replay takes again. */
export interface JournaledTurn {
  /** A turn, or an input that a gate refused. */
  kind: 'turn' | 'refused'
  /** A turn: from its gates and its input to its end, and what followed from that. */
  events: JournalEnvelope[]
  /** The event that gives the input: `io.input`, or the `before:io.input` that was vetoed. */
  input: JournalEnvelope
  /** Whether gates were asked. */
  isGated: boolean
  /** The process was killed behind it: what would have followed may be missing. */
  isCut: boolean
}

/**
 * The completed turns of a journal that have an input, and the inputs that were refused, in order. A turn that was interrupted
 * and taken again counts once, as it was taken last.
 */
export async function* turnEvents(journalDir: string, signal?: AbortSignal): AsyncGenerator<JournaledTurn> {
  const reader = await JournalReader.open(journalDir, { onSegmentDamage: 'continue', signal })
  const turns = new TurnReader()
  for await (const event of reader) yield* turns.add(event)
  yield* turns.flush()
}

type Draft = Omit<JournaledTurn, 'kind' | 'isCut'>

class TurnReader {
  /** The turn under way, or whose input has come. */
  #turn: Draft | undefined
  #isOpen = false
  /** Inputs that came while a turn was under way. */
  #waiting: Draft[] = []
  /** The last turn that ended, with the ids of its end and of everything that followed from it. */
  #ended: { turn: JournaledTurn; ids: Set<string> } | undefined
  /** Events between turns that followed from no end of one: what gates emit stands before their question. */
  #loose: JournalEnvelope[] = []
  /** Questions to gates that let an input in which has not come yet. */
  #gates: JournalEnvelope[][] = []
  /** Between the start of a run and its first input, and from its shutdown on. */
  #isOutside = true

  #place(event: JournalEnvelope): void {
    if (this.#ended !== undefined && this.#ended.ids.has(event.parent_id ?? '')) {
      this.#ended.turn.events.push(event)
      this.#ended.ids.add(event.event_id)
    } else if (this.#turn !== undefined) this.#turn.events.push(event)
    else {
      this.#loose.push(event)
      if (this.#loose.length > MAX_LOOSE) this.#loose.shift()
    }
  }

  *add(event: JournalEnvelope): Generator<JournaledTurn> {
    const { type } = event
    // What the run before left unfinished is given again, or dropped. Its shutdown had let go of the last turn.
    if (type === 'core.boot' && this.#ended !== undefined) this.#ended.turn.isCut = true
    if (type === 'core.boot' || type === 'core.shutdown') yield* this.#leave()
    else if (type === 'before:io.input') yield* this.#ask(event)
    else if (type === 'io.input') yield* this.#give(event)
    else yield* this.#follow(event)
  }

  *#follow(event: JournalEnvelope): Generator<JournaledTurn> {
    if (event.type === 'agent.turn.start') {
      yield* this.flush()
      this.#isOpen = true
      this.#isOutside = false
    }
    if (!OF_THE_RUN.test(event.type) && !this.#isOutside) this.#place(event)
    if (event.type === 'agent.turn.end') yield* this.#end(event)
  }

  /** Gives the last turn away: nothing more belongs to it. */
  *flush(): Generator<JournaledTurn> {
    if (this.#ended !== undefined) yield this.#ended.turn
    this.#ended = undefined
  }

  *#leave(): Generator<JournaledTurn> {
    yield* this.flush()
    this.#turn = undefined
    this.#isOpen = false
    this.#waiting = []
    this.#loose = []
    this.#gates = []
    this.#isOutside = true
  }

  *#ask(event: JournalEnvelope): Generator<JournaledTurn> {
    this.#isOutside = false
    const events = [...this.#takeChildrenOf(event), event]
    if (event.vetoed !== true) {
      this.#gates.push(events)
      return
    }
    yield* this.flush()
    yield { kind: 'refused', events, input: event, isGated: true, isCut: false }
  }

  *#give(input: JournalEnvelope): Generator<JournaledTurn> {
    this.#isOutside = false
    if (input.source === REFIRED_SOURCE) {
      this.#isOpen = false
      this.#waiting = []
    }
    const given = JSON.stringify(input.payload)
    const at = this.#gates.findIndex((events) => JSON.stringify(events.at(-1)?.payload) === given)
    const gate = at === -1 ? [] : (this.#gates.splice(0, at + 1).at(-1) ?? [])
    const turn: Draft = { input, events: [...gate, input], isGated: at !== -1 }
    if (this.#isOpen) {
      this.#waiting.push(turn)
      return
    }
    yield* this.flush()
    this.#turn = turn
  }

  *#end(event: JournalEnvelope): Generator<JournaledTurn> {
    yield* this.flush()
    if (this.#turn !== undefined) {
      this.#ended = { turn: { kind: 'turn', ...this.#turn, isCut: false }, ids: new Set([event.event_id]) }
    }
    this.#isOpen = false
    this.#turn = this.#waiting.shift()
  }

  /** What was emitted through an event that is journaled after it, since its outcome had to be known first. */
  #takeChildrenOf({ event_id: id }: JournalEnvelope): JournalEnvelope[] {
    const ids = new Set([id])
    const children: JournalEnvelope[] = []
    for (const event of this.#loose) {
      if (!ids.has(event.parent_id ?? '')) continue
      ids.add(event.event_id)
      children.push(event)
    }
    this.#loose = []
    return children
  }
}
