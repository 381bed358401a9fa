const FIRST_BYTES = 4096

/** Bytes that grow as numbers and texts are put behind them. Integers are little-endian. */
export class ByteWriter {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** What was written. Valid until the next write. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  clear(): void {
    this.#length = 0
  }

  u8(value: number): void {
    this.#room(1)
    this.#bytes[this.#length++] = value
  }

  u32(value: number): void {
    this.#room(4)
    this.#length = this.#bytes.writeUInt32LE(value, this.#length)
  }

  /** A whole number from 0 to 2^53-1 in groups of seven bits, the lowest first, each but the last with the high bit set. */
  varint(value: number): void {
    this.#room(8)
    let rest = value
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.#bytes[this.#length++] = (rest % 0x80) | 0x80
    this.#bytes[this.#length++] = rest
  }

  raw(bytes: Uint8Array): void {
    this.#room(bytes.length)
    this.#bytes.set(bytes, this.#length)
    this.#length += bytes.length
  }

  #room(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + bytes))
    this.#bytes.copy(larger, 0, 0, this.#length)
    this.#bytes = larger
  }
}
