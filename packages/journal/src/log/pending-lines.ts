/** Lines that belong together, and the seq of the last of them. */
export interface PendingText {
  text: string
  seq: number
}

/** A text that the kernel has taken. */
export interface WrittenText extends PendingText {
  sizeBytes: number
}

interface LostRange {
  from: number
  to: number
}

/** Texts are kept in pieces of about this size, so that one failed write does not repeat megabytes. */
const PIECE_CHARS = 64 * 1024
/** Beyond this many characters of lines that a failing disk does not take, records are dropped and only counted. */
const MAX_PENDING_CHARS = 64 * 1024 * 1024
const STUBS_PER_PIECE = 256

/**
 * The lines that wait for the kernel, in order. Bounded: past the limit (only reached while the disk fails) a record is
 * dropped, and its slot is filled by a stub when the disk works again, so that seqs stay gap-free.
 */
export class PendingLines {
  readonly #lostLine: (seq: number) => string
  #text = ''
  #textSeq = 0
  #queue: (PendingText | LostRange)[] = []
  #queuedChars = 0

  constructor(lostLine: (seq: number) => string) {
    this.#lostLine = lostLine
  }

  get empty(): boolean {
    return this.#text === '' && this.#queue.length === 0
  }

  /** Takes a line; returns how many characters wait in the current piece. */
  add(line: string, seq: number, failing: boolean): number {
    if (failing && this.#queuedChars + this.#text.length + line.length > MAX_PENDING_CHARS) {
      this.#drop(seq)
      return 0
    }
    this.#text += line
    this.#textSeq = seq
    if (failing && this.#text.length >= PIECE_CHARS) this.#cut()
    return this.#text.length
  }

  /** The next text to write; it stays until {@link shift}. */
  peek(): PendingText | undefined {
    if (this.#queue.length === 0) this.#cut()
    const first = this.#queue[0]
    return first === undefined || 'text' in first ? first : this.#stubs(first)
  }

  shift(): void {
    const first = this.#queue[0]
    if (first === undefined) return
    if ('text' in first) {
      this.#queue.shift()
      this.#queuedChars -= first.text.length
      return
    }
    first.from = Math.min(first.to, first.from + STUBS_PER_PIECE - 1) + 1
    if (first.from > first.to) this.#queue.shift()
  }

  #cut(): void {
    if (this.#text === '') return
    this.#queue.push({ text: this.#text, seq: this.#textSeq })
    this.#queuedChars += this.#text.length
    this.#text = ''
  }

  #drop(seq: number): void {
    this.#cut()
    const last = this.#queue.at(-1)
    if (last && 'to' in last) last.to = seq
    else this.#queue.push({ from: seq, to: seq })
  }

  #stubs(range: LostRange): PendingText {
    const to = Math.min(range.to, range.from + STUBS_PER_PIECE - 1)
    let text = ''
    for (let seq = range.from; seq <= to; seq++) text += this.#lostLine(seq)
    return { text, seq: to }
  }
}
