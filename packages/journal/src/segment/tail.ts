import { MAX_LINE_BYTES } from '../format/format.ts'
import type { JournalFs } from '../files/journal-fs.ts'
import { decodeLine, type JournalEnvelope } from '../format/record.ts'
import { PlainSource } from './byte-source.ts'

const BLOCK_BYTES = 64 * 1024
/** How far back from the end the highest seq is looked for: the whole active segment, unless one turn made it larger. */
const SEQ_WINDOW_BYTES = 4 * 1024 * 1024
const NEWLINE = 10
const LINE_START = '\n{"seq":'

/** Where the usable part of a segment ends. */
export interface Tail {
  /** End of the last valid line. */
  goodBytes: number
  /** The last line is complete but for its newline; `goodBytes` counts it without one. */
  newlineMissing: boolean
  last: JournalEnvelope | undefined
}

/**
 * Finds the last valid line of a segment, reading backwards no further than needed. Everything behind it is torn: a power
 * loss may leave several broken lines, or zeros.
 */
export function findTail(fs: JournalFs, fd: number, sizeBytes: number): Tail {
  let end = sizeBytes
  while (end > 0) {
    const terminated = byteAt(fs, fd, end - 1) === NEWLINE
    const contentEnd = terminated ? end - 1 : end
    const start = lineStart(fs, fd, contentEnd)
    const last = readLine(fs, fd, start, contentEnd)
    if (last) return { goodBytes: end, newlineMissing: !terminated, last }
    end = start
  }
  return { goodBytes: 0, newlineMissing: false, last: undefined }
}

function byteAt(fs: JournalFs, fd: number, position: number): number {
  const byte = Buffer.alloc(1)
  fs.readSync(fd, byte, 0, 1, position)
  return byte[0] ?? 0
}

/** Position behind the newline that precedes `end`, or 0. */
function lineStart(fs: JournalFs, fd: number, end: number): number {
  const block = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, end))
  for (let to = end; to > 0;) {
    const from = Math.max(0, to - BLOCK_BYTES)
    const n = fs.readSync(fd, block, 0, to - from, from)
    const newline = block.subarray(0, n).lastIndexOf(NEWLINE)
    if (newline !== -1) return from + newline + 1
    to = from
  }
  return 0
}

function readLine(fs: JournalFs, fd: number, start: number, end: number): JournalEnvelope | undefined {
  if (end - start >= MAX_LINE_BYTES || end <= start) return undefined
  return decodeLine(readRange(fs, fd, start, end).toString('utf8'))
}

/**
 * The highest seq near the end of a plain segment. Normally that of the last line, but two processes that wrote at once
 * may have left a higher one before it.
 */
export function highestSeq(fs: JournalFs, fd: number, sizeBytes: number): number {
  const from = Math.max(0, sizeBytes - SEQ_WINDOW_BYTES)
  // A newline never occurs inside a line of JSON, so this finds beginnings of lines and nothing else.
  const text = `\n${readRange(fs, fd, from, sizeBytes).toString('latin1')}`
  let highest = 0
  for (let at = text.indexOf(LINE_START); at !== -1; at = text.indexOf(LINE_START, at + 1)) {
    highest = Math.max(highest, seqOf(text.slice(at + 1, at + 25)))
  }
  return highest
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
  if (!line.startsWith('{"seq":')) return 0
  const seq = Number.parseInt(line.slice(7, 24), 10)
  return Number.isSafeInteger(seq) && seq > 0 ? seq : 0
}

/** Seq of the first line of a segment; 0 when it has none that can be read. */
export function firstSeq(fs: JournalFs, fd: number, sizeBytes: number): number {
  return seqOf(readRange(fs, fd, 0, Math.min(sizeBytes, 64)).toString('latin1'))
}
