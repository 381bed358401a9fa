import { MAX_LINE_BYTES } from './format.ts'
import type { JournalFs } from './journal-fs.ts'
import { LineReader } from './line-reader.ts'
import { decodeLine, type JournalEnvelope } from './record.ts'
import { PlainSource } from './zstd-source.ts'

const BLOCK_BYTES = 64 * 1024
/** How far back from the end the highest seq is looked for: the whole active segment, unless one turn made it larger. */
const SEQ_WINDOW_BYTES = 4 * 1024 * 1024
const NEWLINE = 10

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
  const bytes = Buffer.allocUnsafe(end - start)
  const source = new PlainSource(fs, fd, start, end)
  let have = 0
  while (have < bytes.length) {
    const n = source.read(bytes, have, bytes.length - have)
    if (n === 0) return undefined
    have += n
  }
  return decodeLine(bytes.toString('utf8'))
}

/**
 * The highest seq near the end of a plain segment. Normally that of the last line, but two processes that wrote at once
 * may have left a higher one before it.
 */
export function highestSeq(fs: JournalFs, fd: number, sizeBytes: number): number {
  const from = Math.max(0, sizeBytes - SEQ_WINDOW_BYTES)
  const lines = new LineReader(new PlainSource(fs, fd, from, sizeBytes), () => undefined, from)
  let highest = 0
  for (let batch = lines.next(); batch; batch = lines.next()) {
    // The first line of the window may be the end of one; its beginning doesn't look like a line then.
    for (const line of batch.lines) highest = Math.max(highest, seqOf(line))
  }
  return highest
}

/** The seq of a line as this package writes it, without parsing the rest; 0 when it begins in another way. */
export function seqOf(line: string): number {
  if (!line.startsWith('{"seq":')) return 0
  const seq = Number.parseInt(line.slice(7, 24), 10)
  return Number.isSafeInteger(seq) && seq > 0 ? seq : 0
}

/** The first line of a segment, or undefined when it isn't one. */
export function firstLine(fs: JournalFs, fd: number, sizeBytes: number): JournalEnvelope | undefined {
  const lines = new LineReader(new PlainSource(fs, fd, 0, sizeBytes), () => undefined)
  const line = lines.next()?.lines[0]
  return line === undefined ? undefined : decodeLine(line)
}
