import { JournalReader, JournalWriter, type JournalEnvelope, type JournalRecord } from '../../src/index.ts'
import type { JournalWriterOptions } from '../../src/write/writer-options.ts'

let count = 0

/** An event with an id of its own. */
export function event(type: string, payload: unknown = {}, fields: Partial<JournalRecord> = {}): JournalRecord {
  count++
  return {
    ts: '2026-11-29T16:34:12.123Z',
    type,
    event_id: `${process.pid}-${count}`,
    source: 'test',
    session_id: 's1',
    depth: 0,
    payload,
    ...fields,
  }
}

/** Opens a writer with the settings that most tests want. */
export function openWriter(dir: string, options: Partial<JournalWriterOptions> = {}): Promise<JournalWriter> {
  return JournalWriter.open(dir, { fsync: 'turn-boundary', rotateBytes: 1 << 30, sessionId: 's1', ...options })
}

/** Every event of a journal, or of what is left of it. */
export async function readAll(dir: string): Promise<JournalEnvelope[]> {
  const events: JournalEnvelope[] = []
  for await (const envelope of await JournalReader.open(dir)) events.push(envelope)
  return events
}

export function seqsOf(events: readonly JournalEnvelope[]): number[] {
  return events.map(({ seq }) => seq)
}

/** `[from, from + 1, ..., to]`. */
export function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i)
}
