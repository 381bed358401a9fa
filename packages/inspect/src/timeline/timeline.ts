import type { JournalEnvelope } from '@nexus/journal'

/** One call of a tool, as the journal has it. */
export interface TimelineCall {
  readonly name: string
  /** Undefined while no result is there. */
  durationMs?: number
  error?: string
}

/** One turn of a session. */
export interface TimelineTurn {
  readonly turnId: string
  readonly firstSeq: number
  lastSeq: number
  /** RFC 3339. */
  readonly startedAt: string
  /** Undefined for a turn that was cut off. */
  durationMs?: number
  /** Why it failed. */
  error?: string
  readonly calls: TimelineCall[]
  /** Session-relative, each once, in the order of their first change. */
  readonly files: string[]
}

type Fields = Readonly<Record<string, unknown>>

/**
 * The turns of a journal, each with its tool calls and the files that changed in it, as soon as it has ended. A turn that was
 * cut off comes when the next one begins, or last.
 */
export async function* timeline(events: AsyncIterable<JournalEnvelope>): AsyncGenerator<TimelineTurn, undefined> {
  let turn: TimelineTurn | undefined
  let calls = new Map<string, { call: TimelineCall; startedMs: number }>()
  for await (const { seq, ts, type, payload } of events) {
    const fields = (typeof payload === 'object' && payload !== null ? payload : {}) as Fields
    const text = (name: string): string => (typeof fields[name] === 'string' ? fields[name] : '')
    if (type === 'agent.turn.start') {
      if (turn !== undefined) yield turn
      turn = { turnId: text('turn_id'), firstSeq: seq, lastSeq: seq, startedAt: ts, calls: [], files: [] }
      calls = new Map()
    }
    if (turn === undefined) continue
    turn.lastSeq = seq
    if (type === 'tool.invoke') {
      const call: TimelineCall = { name: text('name') }
      turn.calls.push(call)
      calls.set(text('id'), { call, startedMs: Date.parse(ts) })
    } else if (type === 'tool.result') {
      const begun = calls.get(text('id'))
      if (begun !== undefined) begun.call.durationMs = Date.parse(ts) - begun.startedMs
      if (begun !== undefined && text('error') !== '') begun.call.error = text('error')
    } else if (type.startsWith('session.file.')) {
      const path = text('path')
      if (!path.startsWith('metadata/') && !turn.files.includes(path)) turn.files.push(path)
    } else if (type === 'agent.turn.end') {
      turn.durationMs = Date.parse(ts) - Date.parse(turn.startedAt)
      if (text('error') !== '') turn.error = text('error')
      yield turn
      turn = undefined
    }
  }
  if (turn !== undefined) yield turn
  return undefined
}
