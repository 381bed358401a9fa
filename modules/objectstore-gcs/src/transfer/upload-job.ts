import type { OpOptions, Snapshot, TransferProgress } from '@nexus/objectstore'
import type { Bucket } from '../bucket.ts'
import type { ApiAnswer } from '../client/client.ts'
import { GcsError } from '../errors.ts'

/** One upload under way. */
export interface Upload {
  name: string
  file: Snapshot
  /** Base64. The store refuses content with another. */
  crc32c: string
  signal: AbortSignal
  onWait: OpOptions['onWait']
  progress: TransferProgress
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

/** The description of an object, read from an answer. A gateway that made something else of it must not pass for a success. */
export async function describedObject(
  answer: ApiAnswer,
  op: string,
): Promise<{ size?: unknown; crc32c?: unknown; generation?: unknown }> {
  const failure = { kind: 'network', code: undefined, sent: true } as const
  const text = await answer.text()
  let described: { kind?: unknown; size?: unknown; crc32c?: unknown; generation?: unknown } | null
  try {
    described = JSON.parse(text) as typeof described
  } catch {
    throw new GcsError(op, `${op} got half an answer`, failure)
  }
  if (described?.kind !== 'storage#object')
    throw new GcsError(op, `${op} got an answer that describes no object`, failure)
  return described
}

/** Demands that what was stored is what was sent. */
export async function checkStored(answer: ApiAnswer, { file, crc32c }: Upload, op: string): Promise<void> {
  const stored = await describedObject(answer, op)
  if (Number(stored.size) === file.size && stored.crc32c === crc32c) return
  const problem = `${op} stored ${String(stored.size)} bytes with CRC32C ${String(stored.crc32c)}`
  const message = `${problem}; the file has ${file.size} bytes with ${crc32c}`
  throw new GcsError(op, message, { kind: 'network', code: undefined, sent: true })
}
