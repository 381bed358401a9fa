import { DamagedObjectError, type ObjectRange } from './damage.ts'

/** Takes apart what a {@link ByteWriter} wrote, and trusts none of it. Every method throws {@link DamagedObjectError}. */
export class ByteReader {
  readonly #bytes: Buffer
  readonly #range: ObjectRange
  #at = 0

  /** @param range where the bytes are stored, for messages */
  constructor(bytes: Buffer, range: ObjectRange) {
    this.#bytes = bytes
    this.#range = range
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  u8(): number {
    return this.raw(1)[0] as number
  }

  u32(): number {
    return this.raw(4).readUInt32LE()
  }

  varint(): number {
    let value = 0
    for (let scale = 1; ; scale *= 0x80) {
      const byte = this.u8()
      const group = byte & 0x7f
      // 2^53 - 1 is 46 bits in the eighth group and all below.
      if (scale > 0x80 ** 7 || (scale === 0x80 ** 7 && group > 0xf)) this.fail('a number is larger than 2^53-1')
      value += group * scale
      if (byte < 0x80) {
        if (byte === 0 && scale > 1) this.fail('a number is written with more bytes than it needs')
        return value
      }
    }
  }

  /** The next bytes, not copied. */
  raw(length: number): Buffer {
    const from = this.#at
    if (length > this.#bytes.length - from) this.fail('it ends too early')
    this.#at = from + length
    return this.#bytes.subarray(from, this.#at)
  }

  end(): void {
    if (!this.isAtEnd) this.fail('something follows its end')
  }

  fail(why: string): never {
    throw new DamagedObjectError(this.#range, why)
  }
}
