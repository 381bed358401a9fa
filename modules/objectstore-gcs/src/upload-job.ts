import type { Bucket } from './bucket.ts'
import type { ApiAnswer } from './client.ts'
import { GcsError } from './errors.ts'
import type { LocalSource } from './local-source.ts'
import type { Tally } from './tally.ts'

/** One upload under way. */
export interface Upload {
  name: string
  source: LocalSource
  /** Base64. The store refuses content with another. */
  crc32c: string
  signal: AbortSignal
  tally: Tally
}

/** The metadata that goes with an upload. */
export function metadataOf({ options }: Bucket, { crc32c }: Upload): string {
  const { storageClass } = options
  return JSON.stringify({
    crc32c,
    contentType: CONTENT_TYPE,
    ...(storageClass === undefined ? {} : { storageClass }),
  })
}

export const CONTENT_TYPE = 'application/octet-stream'

/** Reads the description of the new object: a gateway that made something else of it must not pass for a success. */
export async function checkStored(answer: ApiAnswer, { source, crc32c }: Upload, op: string): Promise<void> {
  const text = await answer.text()
  let stored: { size?: unknown; crc32c?: unknown }
  try {
    stored = JSON.parse(text) as typeof stored
  } catch {
    throw new GcsError(op, `${op} got half an answer`, { kind: 'network', code: undefined, sent: true })
  }
  const sized = stored.size === undefined || Number(stored.size) === source.sizeBytes
  if (sized && (stored.crc32c === undefined || stored.crc32c === crc32c)) return
  const problem = `${op} stored ${String(stored.size)} bytes with CRC32C ${String(stored.crc32c)}`
  const message = `${problem} of a file of ${source.sizeBytes} bytes with ${crc32c}`
  throw new GcsError(op, message, { kind: 'network', code: undefined, sent: true })
}
