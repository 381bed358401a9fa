const POLYNOMIAL = 0x82f63b78
// Eight bytes at a time, a table for each place.
const T0 = firstTable()
const T1 = nextTable(T0)
const T2 = nextTable(T1)
const T3 = nextTable(T2)
const T4 = nextTable(T3)
const T5 = nextTable(T4)
const T6 = nextTable(T5)
const T7 = nextTable(T6)

function firstTable(): Int32Array {
  return Int32Array.from({ length: 256 }, (_, byte) => {
    let value = byte
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ POLYNOMIAL : value >>> 1
    return value
  })
}

function nextTable(table: Int32Array): Int32Array {
  return table.map((value) => (value >>> 8) ^ T0[value & 0xff]!)
}

/**
 * CRC32C of bytes that come in pieces, which Node has not: its `crc32` is another polynomial. Whole sessions pass here on the
 * event loop, so it takes eight bytes at a time, which is eight times as fast as one.
 *
 * @see RFC 3720, B.4
 */
export class Crc32c {
  #state = -1

  update(bytes: Uint8Array): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    let state = this.#state
    let at = 0
    for (const end = bytes.length - 7; at < end; at += 8) {
      const low = state ^ view.getInt32(at, true)
      const high = view.getInt32(at + 4, true)
      state =
        T7[low & 0xff]! ^
        T6[(low >>> 8) & 0xff]! ^
        T5[(low >>> 16) & 0xff]! ^
        T4[low >>> 24]! ^
        T3[high & 0xff]! ^
        T2[(high >>> 8) & 0xff]! ^
        T1[(high >>> 16) & 0xff]! ^
        T0[high >>> 24]!
    }
    for (; at < bytes.length; at++) state = T0[(state ^ bytes[at]!) & 0xff]! ^ (state >>> 8)
    this.#state = state
  }

  /** The sum so far, 0 to 2^32-1. */
  get value(): number {
    return ~this.#state >>> 0
  }
}

/** {@link Crc32c} of bytes that are all there. */
export function crc32c(bytes: Uint8Array): number {
  const sum = new Crc32c()
  sum.update(bytes)
  return sum.value
}
