import type { Bucket } from '../bucket.ts'
import type { ApiAnswer } from '../client/client.ts'
import { GcsError } from '../errors.ts'
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
  let stored: { kind?: unknown; size?: unknown; crc32c?: unknown } | null
  try {
    stored = JSON.parse(text) as typeof stored
  } catch {
    throw new GcsError(op, `${op} got half an answer`, { kind: 'network', code: undefined, sent: true })
  }
  const isObject = stored?.kind === 'storage#object'
  if (isObject && Number(stored?.size) === source.sizeBytes && stored?.crc32c === crc32c) return
  const problem = isObject
    ? `${op} stored ${String(stored?.size)} bytes with CRC32C ${String(stored?.crc32c)}`
    : `${op} got an answer that describes no object`
  const message = `${problem}; the file has ${source.sizeBytes} bytes with ${crc32c}`
  throw new GcsError(op, message, { kind: 'network', code: undefined, sent: true })
}
