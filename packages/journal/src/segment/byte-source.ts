import type { NexusError } from '@nexus/errors'
import type { JournalFs } from '../files/journal-fs.ts'

/** Bytes of a segment, pulled piece by piece into the caller's buffer. */
export interface ByteSource {
  /** Fills at most `length` bytes of `buffer` from `offset` on. Returns how many; 0 only at the end. */
  read(buffer: Buffer, offset: number, length: number): number
  /**
   * The error that ends the reading of what holds no events. Absent where the bytes are all on the disk: only what expands
   * can cost far more time than it has bytes.
   */
  refuse?(reason: string): NexusError
}

/** The bytes of a plain file from `position` up to `end` (default: up to wherever the file ends when it is read). */
export class PlainSource implements ByteSource {
  readonly #fs: JournalFs
  readonly #fd: number
  #position: number
  readonly #end: number

  constructor(fs: JournalFs, fd: number, position = 0, end: number = Infinity) {
    this.#fs = fs
    this.#fd = fd
    this.#position = position
    this.#end = end
  }

  read(buffer: Buffer, offset: number, length: number): number {
    const wanted = Math.min(length, this.#end - this.#position)
    if (wanted <= 0) return 0
    const n = this.#fs.readSync(this.#fd, buffer, offset, wanted, this.#position)
    this.#position += n
    return n
  }
}
