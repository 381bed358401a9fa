import { fromSystemError, isNexusError } from '@nexus/errors'
import { Slices } from '@nexus/host'
import { activePath, listSealed } from '../format/journal-files.ts'
import { holdDirectory } from '../files/held-directory.ts'
import type { JournalFs } from '../files/journal-fs.ts'
import { LineReader } from '../segment/line-reader.ts'
import { decodeLine, type JournalEnvelope } from '../format/record.ts'
import { segmentSource } from '../segment/segment-source.ts'
import { TURN_TYPES, Turns } from './turns.ts'

/** How the journal ends. */
export interface OpenTurn {
  /** A turn was started and none ended after that. */
  isPartialTurn: boolean
  /** The input that was not answered: of that turn, or one that was journaled before its turn began. */
  partialInput: JournalEnvelope | undefined
  /** Its tool calls that have no result, as `tool.invoke` events: whether they took effect is not known. */
  unansweredCalls: JournalEnvelope[]
  /** Seq of the last `agent.turn.end`; 0 for none. */
  lastTurnBoundary: number
}

/**
 * What a resume needs to know about a journal, from its end: reads the active segment, and sealed ones only as far back
 * as the last turn boundary. A damaged segment counts up to its damage.
 *
 * @throws `LOCAL_IO`, `PERMISSION`; a missing journal has no open turn
 */
export async function readOpenTurn(
  dir: string,
  options: { signal?: AbortSignal | undefined; fs?: JournalFs } = {},
): Promise<OpenTurn> {
  const { signal } = options
  const held = holdDirectory(dir, options.fs)
  try {
    return await readBackwards(dir, held.fs, signal)
  } finally {
    held.close()
  }
}

async function readBackwards(dir: string, fs: JournalFs, signal: AbortSignal | undefined): Promise<OpenTurn> {
  const paths = [...listSealed(dir, fs).map(({ path }) => path), activePath(dir, fs)]
  let events: JournalEnvelope[] = []
  for (const path of paths.toReversed()) {
    signal?.throwIfAborted()
    events = [...(await turnEventsOf(fs, path)), ...events]
    if (events.some(({ type }) => type === 'agent.turn.end')) break
  }
  const turns = new Turns()
  let lastSeq = 0
  for (const event of events) {
    // A crash during a rotation leaves lines in two segments.
    if (event.seq <= lastSeq) continue
    lastSeq = event.seq
    turns.add(event)
  }
  const { isPartialTurn, partialInput, unansweredCalls, lastTurnBoundary } = turns
  return { isPartialTurn, partialInput, unansweredCalls, lastTurnBoundary }
}

async function turnEventsOf(fs: JournalFs, path: string): Promise<JournalEnvelope[]> {
  const found: JournalEnvelope[] = []
  const time = new Slices()
  let fd: number | undefined
  try {
    fd = fs.openSync(path, 'r')
    const source = segmentSource(fs, fd, path)
    const lines = new LineReader(source, ({ text }) => keepTurnEvent(found, text ?? ''))
    for (let batch = lines.next(); batch; batch = lines.next()) {
      for (const line of batch.lines) keepTurnEvent(found, line)
      const rest = time.rest()
      if (rest) await rest
    }
  } catch (error) {
    const wrapped = isNexusError(error) ? error : fromSystemError(error, 'journal.read', path)
    if (wrapped.code !== 'CORRUPT' && wrapped.code !== 'NOT_FOUND') throw wrapped
  } finally {
    if (fd !== undefined) fs.closeSync(fd)
  }
  return found
}

// Parsing only lines that can be of interest makes this several times faster than reading events.
const CANDIDATE = /"type":"(?:io\.input|agent\.turn\.|tool\.(?:invoke|result)"|core\.shutdown")/

function keepTurnEvent(found: JournalEnvelope[], line: string): void {
  if (!CANDIDATE.test(line)) return
  const event = decodeLine(line)
  // Ascending, so that a segment that expands to one event a million times is held once.
  if (event && TURN_TYPES.has(event.type) && event.seq > (found.at(-1)?.seq ?? 0)) found.push(event)
}
