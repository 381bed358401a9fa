import { SeededRandom } from './seeded-random.ts'

/** Bytes that are known by a seed. */
export interface Piece {
  seed: number
  sizeBytes: number
}

/** The bytes of a piece, the same on every host. */
export function bytesOf({ seed, sizeBytes }: Piece): Buffer {
  const random = new SeededRandom(seed)
  const bytes = Buffer.alloc(sizeBytes)
  for (let at = 0; at < sizeBytes; at += 4) {
    const word = Math.floor(random.next() * 2 ** 32)
    if (at + 4 <= sizeBytes) bytes.writeUInt32LE(word, at)
    else bytes.fill(word & 0xff, at)
  }
  return bytes
}
