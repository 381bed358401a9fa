// Castagnoli, reflected. Kept apart from any client's own so that the two check each other.
const POLYNOMIAL = 0x82f63b78
const TABLE = Int32Array.from({ length: 256 }, (_, index) => {
  let value = index
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ POLYNOMIAL : value >>> 1
  return value
})

/** CRC32C of bytes that arrive in pieces. */
export class Crc32c {
  #state = -1

  update(bytes: Uint8Array): void {
    let state = this.#state
    for (let i = 0; i < bytes.length; i++) state = TABLE[(state ^ (bytes[i] as number)) & 0xff]! ^ (state >>> 8)
    this.#state = state
  }

  /** Base64 of the four big-endian bytes, the form of the JSON API. */
  base64(): string {
    const bytes = Buffer.alloc(4)
    bytes.writeInt32BE(~this.#state)
    return bytes.toString('base64')
  }
}
