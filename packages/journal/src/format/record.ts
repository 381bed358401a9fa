import { MAX_LINE_BYTES } from './format.ts'
import { encodeError, encodePayload, mayHoldMarkers, revivePayload } from './payload.ts'
import { toWellFormed } from './unicode.ts'

/** One event as it is handed to the journal. `seq` is allotted by the writer. */
export interface JournalRecord {
  /** Dispatch time, RFC 3339 with sub-second digits. */
  ts: string
  type: string
  event_id: string
  source: string
  parent_seq?: number | undefined
  parent_id?: string | undefined
  session_id: string
  agent_id?: string | undefined
  depth: number
  /** The event touched the world (a model, a tool, a shell, a person). */
  side_effect?: boolean | undefined
  vetoed?: boolean | undefined
  veto_reason?: string | undefined
  /** Any value; see the README for how values that JSON has no word for are written. */
  payload: unknown
}

/** One event as it is read back. Bytes in the payload are Buffers again. */
export interface JournalEnvelope extends JournalRecord {
  /** From 1, ascending, gap-free. */
  seq: number
}

/** Longer names and reasons are cut, so that the fields beside the payload stay within the room left for them. */
const MAX_FIELD_CHARS = 64 * 1024
const MAX_PLAIN_CHARS = 256
/** Room for every other field of the envelope. */
const MAX_PAYLOAD_CHARS = MAX_LINE_BYTES - 1024 * 1024

const OPENING_BRACE = 123
const SAFE_TEXT = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/

// Types, sources and session ids are few and repeat in every record.
const quoted = new Map<string, string>()
const MAX_QUOTED = 2000

/**
 * The line of a record, newline included. Never throws, and never longer than {@link MAX_LINE_BYTES}: a payload that
 * can't be written is replaced by a `__journal_error` so that the slot is kept.
 */
export function encodeRecord(seq: number, record: JournalRecord): string {
  try {
    const line = encodeLine(seq, record, encodePayload(record.payload, MAX_PAYLOAD_CHARS))
    // Only a line with many multi-byte characters can pass the check in characters and fail the one in bytes.
    if (line.length * 3 <= MAX_LINE_BYTES || Buffer.byteLength(line) <= MAX_LINE_BYTES) return line
    return encodeLine(seq, record, encodeError(`payload makes a line longer than ${MAX_LINE_BYTES} bytes`))
  } catch {
    return encodeLine(seq, UNREADABLE, encodeError('the record itself could not be read'))
  }
}

/** Stands in for a record whose own fields throw when they are read. */
const UNREADABLE: JournalRecord = {
  ts: '',
  type: 'journal.unreadable',
  event_id: '',
  source: '',
  session_id: '',
  depth: 0,
  payload: undefined,
}

function encodeLine(seq: number, record: JournalRecord, payload: string | undefined): string {
  let line = `{"seq":${seq},"ts":${quote(record.ts)},"type":${quoteCached(record.type)},"event_id":${quote(record.event_id)}`
  if (record.source) line += `,"source":${quoteCached(record.source)}`
  if (isCount(record.parent_seq)) line += `,"parent_seq":${record.parent_seq}`
  if (record.parent_id) line += `,"parent_id":${quote(record.parent_id)}`
  if (record.session_id) line += `,"session_id":${quoteCached(record.session_id)}`
  if (record.agent_id) line += `,"agent_id":${quoteCached(record.agent_id)}`
  if (isCount(record.depth)) line += `,"depth":${record.depth}`
  if (record.side_effect) line += ',"side_effect":true'
  if (record.vetoed) line += ',"vetoed":true'
  if (record.veto_reason) line += `,"veto_reason":${quote(record.veto_reason)}`
  return payload === undefined ? `${line}}\n` : `${line},"payload":${payload}}\n`
}

function isCount(value: number | undefined): boolean {
  return value !== undefined && value > 0 && Number.isSafeInteger(value)
}

// Takes anything: at run time a caller without types may hand over what it likes, and a record is never refused.
function quote(text: unknown): string {
  if (typeof text === 'string' && text.length <= MAX_PLAIN_CHARS && SAFE_TEXT.test(text)) return `"${text}"`
  return JSON.stringify(toWellFormed(String(text).slice(0, MAX_FIELD_CHARS)))
}

function quoteCached(text: string): string {
  const known = quoted.get(text)
  if (known !== undefined) return known
  const made = quote(text)
  if (made.length > MAX_PLAIN_CHARS) return made
  if (quoted.size >= MAX_QUOTED) quoted.clear()
  quoted.set(text, made)
  return made
}

/**
 * Reads one line, without its newline, back into an envelope. Undefined when it is not one: not JSON, not an object, or
 * without a positive integer `seq` and a string `type`.
 */
export function decodeLine(line: string): JournalEnvelope | undefined {
  return decode(line, mayHoldMarkers(line))
}

/** {@link decodeLine} for a caller that has already looked for markers in the surrounding text. */
export function decode(line: string, markers: boolean): JournalEnvelope | undefined {
  // An object or nothing: a file full of blank lines must not cost an exception each.
  if (line.charCodeAt(0) !== OPENING_BRACE) return undefined
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  const envelope = value as JournalEnvelope
  if (!Number.isSafeInteger(envelope.seq) || envelope.seq < 1 || typeof envelope.type !== 'string') return undefined
  envelope.source ??= ''
  envelope.session_id ??= ''
  envelope.depth ??= 0
  if (markers) envelope.payload = revivePayload(envelope.payload)
  return envelope
}
