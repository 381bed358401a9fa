import { Slices } from '@nexus/host'
import { writeFully, type JournalFs } from '../files/journal-fs.ts'
import { LineReader } from './line-reader.ts'
import { decodeLine } from '../format/record.ts'
import { seqOf } from './tail.ts'
import type { ByteSource } from './byte-source.ts'

/** Which lines to take: those above one seq, up to and including another. */
export interface SeqRange {
  above: number
  upTo: number
}

/** What was copied. */
export interface CopiedLines {
  events: number
  /** Highest seq copied; `above` when nothing was. */
  lastSeq: number
  sizeBytes: number
  /** A line above the range was met: whatever follows it is not wanted either. */
  reachedEnd: boolean
}

/**
 * Copies lines as they stand, in ascending order of their seqs, and stops at the first one above the range. A line that
 * repeats a seq is left out; one without a readable seq stays where it is, so that undamaged bytes come out unchanged.
 */
export async function copyLines(
  fs: JournalFs,
  source: ByteSource,
  dest: number,
  range: SeqRange,
): Promise<CopiedLines> {
  const copied = { events: 0, lastSeq: range.above, sizeBytes: 0, reachedEnd: false }
  const time = new Slices()
  let unterminated: string | undefined
  const lines = new LineReader(source, (broken) => {
    unterminated = broken.text
  })
  for (let batch = lines.next(); batch && !copied.reachedEnd; batch = lines.next()) {
    write(fs, dest, takeLines(batch.lines, range, copied), copied)
    const rest = time.rest()
    if (rest) await rest
  }
  // A last line that lacks nothing but its newline is an event like any other.
  if (unterminated !== undefined && decodeLine(unterminated) && !copied.reachedEnd) {
    write(fs, dest, takeLines([unterminated], range, copied), copied)
  }
  return copied
}

function takeLines(lines: readonly string[], range: SeqRange, copied: CopiedLines): string {
  let text = ''
  for (const line of lines) {
    const seq = seqOf(line) || (decodeLine(line)?.seq ?? 0)
    if (seq > range.upTo) {
      copied.reachedEnd = true
      break
    }
    if (seq > 0 && seq <= copied.lastSeq) continue
    text += `${line}\n`
    if (seq === 0) continue
    copied.lastSeq = seq
    copied.events++
  }
  return text
}

function write(fs: JournalFs, dest: number, text: string, copied: CopiedLines): void {
  const bytes = Buffer.from(text)
  writeFully(fs, dest, bytes)
  copied.sizeBytes += bytes.length
}
