import { DamageLog, type DamageKind } from '../format/damage.ts'
import { ACTIVE_SEGMENT, MAX_LINE_BYTES } from '../format/format.ts'
import type { JournalFs } from '../files/journal-fs.ts'
import { decodeLine, type JournalEnvelope } from '../format/record.ts'
import { PlainSource } from './byte-source.ts'
import { MIN_LINE_BYTES } from './line-reader.ts'

const BLOCK_BYTES = 64 * 1024
/** How far back from the end a segment is examined: the whole active segment, unless one turn made it larger. */
const WINDOW_BYTES = 4 * 1024 * 1024
const NEWLINE = 10
const OPENING_BRACE = 123
const LINE_START = '{"seq":'

/** Where the usable part of a segment ends. */
export interface Tail {
  /** End of the last valid line. */
  goodBytes: number
  /** The last line is complete but for its newline; `goodBytes` counts it without one. */
  newlineMissing: boolean
  /** What follows begins with a NUL. */
  zeros: boolean
  last: JournalEnvelope | undefined
}

/**
 * Finds the last valid line of a segment, reading backwards no further than needed. Everything behind it is torn: a power
 * loss may leave several broken lines, or zeros.
 */
export function findTail(fs: JournalFs, fd: number, sizeBytes: number): Tail {
  let behind: number | undefined
  for (const { start, end, first } of linesBackwards(fs, fd, sizeBytes)) {
    const last = first === OPENING_BRACE ? readLine(fs, fd, start, end) : undefined
    if (last) return { ...last, goodBytes: end, zeros: behind === 0 }
    behind = first
  }
  return { goodBytes: 0, newlineMissing: false, zeros: behind === 0, last: undefined }
}

function readLine(
  fs: JournalFs,
  fd: number,
  start: number,
  end: number,
): Pick<Tail, 'last' | 'newlineMissing'> | undefined {
  if (end - start < MIN_LINE_BYTES - 1 || end - start > MAX_LINE_BYTES) return undefined
  const line = readRange(fs, fd, start, end)
  const newlineMissing = line.at(-1) !== NEWLINE
  const last = decodeLine(line.toString('utf8', 0, line.length - (newlineMissing ? 0 : 1)))
  return last && { last, newlineMissing }
}

/** Lines from the last to the first, their newlines included, and the first byte of each. */
function* linesBackwards(
  fs: JournalFs,
  fd: number,
  sizeBytes: number,
): Generator<{ start: number; end: number; first: number | undefined }> {
  let end = sizeBytes
  let firstBehind: number | undefined
  for (let to = sizeBytes; to > 0;) {
    const from = Math.max(0, to - BLOCK_BYTES)
    const block = readRange(fs, fd, from, to)
    for (let at = block.lastIndexOf(NEWLINE); at !== -1; at = at === 0 ? -1 : block.lastIndexOf(NEWLINE, at - 1)) {
      const start = from + at + 1
      if (start < end) yield { start, end, first: block[at + 1] ?? firstBehind }
      end = start
    }
    firstBehind = block[0]
    to = from
  }
  if (end > 0) yield { start: 0, end, first: firstBehind }
}

/**
 * Examines the last 4 MiB of an active segment without parsing what looks right: a line that begins with the next seq,
 * closes its object, and holds neither a NUL nor the beginning of a second record.
 *
 * @param damage takes lines that are no events, and seqs that do not follow each other
 * @returns the highest seq: normally that of the last line, but two processes that wrote at once may have left a higher
 * one before it
 */
export function examineEnd(fs: JournalFs, fd: number, sizeBytes: number, damage: DamageLog = new DamageLog()): number {
  const from = Math.max(0, sizeBytes - WINDOW_BYTES)
  const bytes = readRange(fs, fd, from, sizeBytes)
  // One character a byte, so that positions are offsets.
  const text = bytes.toString('latin1')
  let highest = 0
  const report = (kind: DamageKind, at: number, seq: number, detail: string): void =>
    damage.add({ kind, file: ACTIVE_SEGMENT, offset: from + at, ...(seq > 0 && { seq }), detail })
  let previous = 0
  let nul = text.indexOf('\0')
  for (let start = from === 0 ? 0 : text.indexOf('\n') + 1, end = 0; start < text.length; start = end + 1) {
    end = text.indexOf('\n', start)
    if (end === -1) end = text.length
    const second = text.indexOf(LINE_START, start + 1)
    const looksRight = text[end - 1] === '}' && (nul === -1 || nul > end) && (second === -1 || second > end)
    const seq =
      (looksRight && seqOf(text.slice(start, start + 25))) || (decodeLine(bytes.toString('utf8', start, end))?.seq ?? 0)
    if (seq === 0) {
      const what =
        nul >= start && nul < end ? 'the line holds zeros, as a power loss leaves them' : 'the line is not an event'
      report('malformed', start, 0, what)
    } else {
      if (previous > 0 && seq > previous + 1) report('gap', start, previous + 1, missing(previous + 1, seq - 1))
      if (seq <= previous) report('out-of-order', start, seq, `seq ${seq} comes after seq ${previous}`)
      previous = seq
      highest = Math.max(highest, seq)
    }
    if (nul !== -1 && nul < end) nul = text.indexOf('\0', end)
  }
  return highest
}

/** How a gap is described. */
export function missing(from: number, to: number): string {
  return from === to ? `seq ${from} is missing` : `seqs ${from} to ${to} are missing`
}

function readRange(fs: JournalFs, fd: number, from: number, to: number): Buffer {
  const bytes = Buffer.allocUnsafe(to - from)
  const source = new PlainSource(fs, fd, from, to)
  let have = 0
  while (have < bytes.length) {
    const n = source.read(bytes, have, bytes.length - have)
    if (n === 0) break
    have += n
  }
  return bytes.subarray(0, have)
}

/** The seq of a line as this package writes it, without parsing the rest; 0 when it begins in another way. */
export function seqOf(line: string): number {
  if (!line.startsWith(LINE_START)) return 0
  const seq = Number.parseInt(line.slice(7, 24), 10)
  return Number.isSafeInteger(seq) && seq > 0 ? seq : 0
}

/** Seq of the first line of a segment; 0 when it has none that can be read. */
export function firstSeq(fs: JournalFs, fd: number, sizeBytes: number): number {
  return seqOf(readRange(fs, fd, 0, Math.min(sizeBytes, 64)).toString('latin1'))
}
