/** Bytes of a journal line in the benches that write lines. */
export const LINE_BYTES = 300

/** An event as a line of the journal holds it. */
export interface EventLine {
  seq: number
  ts: string
  type: string
  event_id: string
  source: string
  session_id: string
  payload: EventPayload
}

/** What the events of the benches carry. */
export interface EventPayload {
  id: string
  name: string
  arguments: { query: string }
}

/** A payload that makes a line of about {@link LINE_BYTES} bytes. */
export function payloadOf(n: number): EventPayload {
  return { id: `call-${n}`, name: 'search', arguments: { query: TEXTS[n % TEXTS.length] as string } }
}

/** The line's fields, before they are text. */
export function lineOf(seq: number, type: string): EventLine {
  return {
    seq,
    ts: '2026-01-01T00:00:00.000Z',
    type,
    event_id: EVENT_ID,
    source: 'core',
    session_id: SESSION_ID,
    payload: payloadOf(seq),
  }
}

const TEXT_CHARS = 71
const EVENT_ID = 'abcdefghijklmnopqrstuvwxyz'
const SESSION_ID = '20260101T000000Z-1a2b3c4d'
const WORDS =
  'the tool reads a file and says what it found there before next step asks model for another plan with less cost'.split(
    ' ',
  )
/** Texts that repeat only after many lines, so that they compress about as well as real ones. */
const TEXTS: readonly string[] = Array.from({ length: 4096 }, (_, n) => words(n))

// A fixed sequence: every run has the same lines.
function words(seed: number): string {
  let text = ''
  for (let state = seed * 2_654_435_761 + 1; text.length < TEXT_CHARS;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    text += `${WORDS[(state >>> 16) % WORDS.length]} `
  }
  return text.slice(0, TEXT_CHARS)
}
