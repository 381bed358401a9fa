import { Crc32c, type Snapshot } from '@nexus/objectstore'

/** Base64 of the CRC32C of a whole file. Reads it once. */
export async function crc32cOf(file: Snapshot, signal: AbortSignal): Promise<string> {
  const sum = new Crc32c()
  const buffer = Buffer.allocUnsafe(Math.min(file.size, 256 * 1024))
  for (let at = 0; at < file.size; at += buffer.length) {
    signal.throwIfAborted()
    const chunk = buffer.subarray(0, Math.min(buffer.length, file.size - at))
    await file.fill(chunk, at)
    sum.update(chunk)
  }
  return base64Of(sum)
}

/** Base64 of the four bytes, big-endian: the form of the JSON API and of `x-goog-hash`. */
export function base64Of(sum: Crc32c): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(sum.value)
  return bytes.toString('base64')
}
