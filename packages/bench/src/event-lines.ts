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
  return { id: `call-${n}`, name: 'search', arguments: { query: FILLER } }
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

const EVENT_ID = 'abcdefghijklmnopqrstuvwxyz'
const SESSION_ID = '20260101T000000Z-1a2b3c4d'
const FILLER = 'journal '.repeat(9).trim()
