import { JournalReader, REFIRED_SOURCE, type JournalEnvelope } from '@nexus/journal'

/** What belongs to the run and not to the turn: a replay has a boot of its own, and its files are elsewhere. */
const OF_THE_RUN = /^(?:core\.|session\.|tool\.register$|io\.history\.replay$|before:io\.input$)/

/**
 * The events of each completed turn that has an input, from its input to its end, in the order of the journal. A turn that was
 * interrupted and taken again counts once, as it was taken last.
 */
export async function* turnEvents(journalDir: string, signal?: AbortSignal): AsyncGenerator<JournalEnvelope[]> {
  const reader = await JournalReader.open(journalDir, { onSegmentDamage: 'continue', signal })
  let turn: JournalEnvelope[] = []
  /** Inputs that came while a turn was under way. */
  let waiting: JournalEnvelope[] = []
  let isOpen = false
  for await (const event of reader) {
    if (event.type === 'core.boot' || event.source === REFIRED_SOURCE) {
      // What the run before left unfinished is given again, or dropped.
      isOpen = false
      waiting = []
    }
    if (event.type === 'io.input') {
      if (isOpen) waiting.push(event)
      else turn = [event]
      continue
    }
    if (event.type === 'agent.turn.start') isOpen = true
    if (!OF_THE_RUN.test(event.type)) turn.push(event)
    if (event.type !== 'agent.turn.end') continue
    if (turn[0]?.type === 'io.input') yield turn
    isOpen = false
    turn = waiting.splice(0, 1)
  }
}
