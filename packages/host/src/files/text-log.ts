import { isUtf8 } from 'node:buffer'
import { closeSync } from 'node:fs'
import { systemCode } from '@nexus/errors'
import { Slices } from '../time/slices.ts'
import { openRegular, readSteps } from './file-digest.ts'

/** What is wrong with one line of a text log. */
export interface TextLogDamage {
  /** Bytes from the start of the file. */
  offset: number
  /** Counted from 1. */
  line: number
  why: 'holds NUL bytes' | 'is not UTF-8' | 'is not a JSON object' | 'ends without a newline'
}

/** What {@link inspectTextLog} found. */
export interface TextLogReport {
  sizeBytes: number
  lines: number
  /** The first 100, in the order of the file. */
  damage: TextLogDamage[]
  /** All of them. */
  damaged: number
}

const MAX_DAMAGE = 100
/** Longer lines are looked at, and not parsed: that would stall the loop, and need their size in memory. */
const MAX_PARSED_BYTES = 1024 * 1024
const NEWLINE = 0x0a

/**
 * Reads an append-only file of JSON lines, in bounded memory and in slices, and tells what a crash or a bad disk did to it:
 * runs of NUL bytes, lines that are cut, and a last one without its newline.
 *
 * @returns undefined when there is no regular file
 * @throws the system error of reading
 */
export async function inspectTextLog(path: string, slices: Slices = new Slices()): Promise<TextLogReport | undefined> {
  let file: ReturnType<typeof openRegular>
  try {
    file = openRegular(path)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'ENOTREG'].includes(systemCode(error) ?? '')) return undefined
    throw error
  }
  const report: TextLogReport = { sizeBytes: file.size, lines: 0, damage: [], damaged: 0 }
  const lines = new LineJudge(report)
  try {
    const steps = readSteps(file.fd, file.size, (bytes) => lines.push(bytes))
    while (steps.next().done !== true) if (slices.due) await slices.pause()
    lines.end()
    return report
  } finally {
    closeSync(file.fd)
  }
}

/** Puts lines together from the pieces in which a file is read. */
class LineJudge {
  readonly #report: TextLogReport
  #parts: Buffer[] = []
  #length = 0
  #hasNul = false
  #offset = 0

  constructor(report: TextLogReport) {
    this.#report = report
  }

  push(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;) {
      const newline = bytes.indexOf(NEWLINE, at)
      const end = newline === -1 ? bytes.length : newline
      this.#take(bytes.subarray(at, end))
      if (newline !== -1) this.#judge(1)
      at = end + 1
    }
  }

  end(): void {
    if (this.#length === 0) return
    this.#tell('ends without a newline')
    this.#judge(0)
  }

  #take(part: Buffer): void {
    this.#length += part.length
    this.#hasNul ||= part.includes(0)
    // The buffer it lies in is used again.
    if (this.#length <= MAX_PARSED_BYTES) this.#parts.push(Buffer.from(part))
  }

  #judge(newlineBytes: number): void {
    const line = this.#length <= MAX_PARSED_BYTES ? Buffer.concat(this.#parts) : undefined
    this.#report.lines += 1
    if (this.#hasNul) this.#tell('holds NUL bytes')
    else if (line !== undefined && !isUtf8(line)) this.#tell('is not UTF-8')
    else if (line !== undefined && !isRecord(line.toString())) this.#tell('is not a JSON object')
    this.#offset += this.#length + newlineBytes
    this.#parts = []
    this.#length = 0
    this.#hasNul = false
  }

  #tell(why: TextLogDamage['why']): void {
    const { damage, lines } = this.#report
    this.#report.damaged += 1
    // The line is counted when it is judged; one without its end is told of before that.
    const line = why === 'ends without a newline' ? lines + 1 : lines
    if (damage.length < MAX_DAMAGE) damage.push({ offset: this.#offset, line, why })
  }
}

/** A blank line is no record, and does no harm. */
function isRecord(text: string): boolean {
  return text.trim() === '' || isJsonObject(text)
}

/** Whether a text is one whole JSON object. */
export function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
