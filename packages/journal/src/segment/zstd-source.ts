import zstd from 'zstd-napi/binding.js'
import type { ByteSource } from './byte-source.ts'
import { readFooter } from './segment-footer.ts'
import { SegmentDamagedError } from '../format/damage.ts'
import { MAX_SEGMENT_BYTES } from '../format/format.ts'
import type { JournalFs } from '../files/journal-fs.ts'

/** A file of this package needs 2 MiB; 8 MiB admits what level 19 of the zstd tool makes and bounds the decoder's memory. */
const MAX_WINDOW_LOG = 23
const INPUT_BYTES = 128 * 1024

/**
 * The expanded bytes of a zstd file: every frame, one after another. Throws `CORRUPT`, naming file and offset, after the
 * last good block was handed out: for a cut file, junk behind a frame, an empty file, a wrong checksum, or one that
 * expands beyond {@link MAX_SEGMENT_BYTES} or beyond what its footer says.
 */
export class ZstdSource implements ByteSource {
  readonly #fs: JournalFs
  readonly #fd: number
  readonly #path: string
  readonly #ceilingBytes: number
  #context: zstd.DCtx = newContext()
  readonly #input = Buffer.allocUnsafe(INPUT_BYTES)
  #from = 0
  #to = 0
  #filePosition = 0
  #inFrame = false
  #frames = 0
  #expanded = 0
  /** After an error: input up to here decoded well, output up to `skip` was handed out. Both are passed over again. */
  #careful: { goodInput: number; skip: number } | undefined

  constructor(fs: JournalFs, fd: number, path: string) {
    this.#fs = fs
    this.#fd = fd
    this.#path = path
    // A footer is as easy to forge as the rest, so it can lower the limit and not raise it.
    this.#ceilingBytes = Math.min(MAX_SEGMENT_BYTES, readFooter(fd, fs)?.expandedBytes ?? MAX_SEGMENT_BYTES)
  }

  read(buffer: Buffer, offset: number, length: number): number {
    for (;;) {
      if (this.#from === this.#to) this.#fill()
      if (this.#from === this.#to && !this.#inFrame) {
        if (this.#frames === 0) throw this.#corrupt('it holds no zstd frame')
        return 0
      }
      const starved = this.#from === this.#to
      const produced = this.#step(buffer, offset, length)
      if (produced > 0) return produced
      if (starved && this.#inFrame) throw this.#corrupt('it ends in the middle of a frame')
    }
  }

  get #consumed(): number {
    return this.#filePosition - (this.#to - this.#from)
  }

  #fill(): void {
    this.#from = 0
    this.#to = this.#fs.readSync(this.#fd, this.#input, 0, INPUT_BYTES, this.#filePosition)
    this.#filePosition += this.#to
  }

  #step(buffer: Buffer, offset: number, length: number): number {
    const target = buffer.subarray(offset, offset + length)
    let result: [number, number, number]
    try {
      result = this.#context.decompressStream(target, this.#input.subarray(this.#from, this.#from + this.#stride()))
    } catch (cause) {
      if (this.#careful) throw this.#corrupt('it is not valid zstd from there on', cause)
      this.#restartCarefully()
      return 0
    }
    const [remaining, produced, consumed] = result
    this.#from += consumed
    this.#inFrame = remaining !== 0
    if (remaining === 0) this.#frames++
    return this.#account(target, produced)
  }

  #stride(): number {
    const have = this.#to - this.#from
    if (!this.#careful) return have
    return Math.min(have, Math.max(1, this.#careful.goodInput - this.#consumed))
  }

  /** An error loses whatever good blocks the same call had decoded, so they are decoded again, with a byte at a time. */
  #restartCarefully(): void {
    this.#careful = { goodInput: this.#consumed, skip: this.#expanded }
    this.#context = newContext()
    this.#from = this.#to = this.#filePosition = this.#expanded = this.#frames = 0
    this.#inFrame = false
  }

  #account(target: Buffer, produced: number): number {
    this.#expanded += produced
    if (this.#expanded > this.#ceilingBytes) {
      throw this.#corrupt(`it expands to more than ${this.#ceilingBytes} bytes`)
    }
    if (!this.#careful) return produced
    const fresh = Math.min(produced, Math.max(0, this.#expanded - this.#careful.skip))
    target.copyWithin(0, produced - fresh, produced)
    return fresh
  }

  refuse(reason: string): SegmentDamagedError {
    return this.#corrupt(reason)
  }

  #corrupt(reason: string, cause?: unknown): SegmentDamagedError {
    return new SegmentDamagedError(this.#path, this.#consumed, reason, cause)
  }
}

function newContext(): zstd.DCtx {
  const context = new zstd.DCtx()
  context.setParameter(zstd.DParameter.windowLogMax, MAX_WINDOW_LOG)
  return context
}
