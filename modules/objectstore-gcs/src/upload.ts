import { NexusError, type OpOptions, quoteKey } from '@nexus/objectstore'
import { type Bucket, objectName } from './bucket.ts'
import { classifyGcsError, GcsError, hasStatus, isOtherContent } from './errors.ts'
import { LocalSource } from './transfer/local-source.ts'
import { insertObject } from './transfer/single.ts'
import { uploadInChunks } from './transfer/parts.ts'
import { withRetries } from './client/retry.ts'
import { Tally } from './transfer/tally.ts'
import type { Upload } from './transfer/upload-job.ts'

/** Stores a file's first `size` bytes under a key, whatever is there. Repeated until it is in: the content is the same. */
export async function putObject(bucket: Bucket, key: string, localPath: string, options: OpOptions): Promise<void> {
  await withUpload(bucket, key, localPath, options, async (upload) => {
    const { source, signal } = upload
    const chunked = source.sizeBytes > bucket.options.resumableThresholdBytes
    for (let reads = 1; ; reads++) {
      try {
        if (chunked) await uploadInChunks(bucket, upload)
        else await withRetries(bucket.retry, signal, () => insertObject(bucket, upload, {}))
        return
      } catch (error) {
        if (!isOtherContent(error)) throw error
        if (reads === MOST_READS) throw keepsChanging(key, localPath, error)
        upload.crc32c = await source.crc32c(signal)
      }
    }
  })
}

/** How often a file whose content changes between its checksum and its upload is read. */
const MOST_READS = 3

function keepsChanging(key: string, path: string, cause: unknown): NexusError {
  const message = `${path} kept changing while it was stored as ${quoteKey(key)}`
  return new NexusError('UNAVAILABLE', message, { op: 'objectstore.put', key, cause })
}

/**
 * Creates an object if its name is free. One attempt: a second would be told of the first one's own object.
 *
 * @returns whether it was created
 * @throws NexusError `OUTCOME_UNKNOWN` when it may have happened
 */
export async function createObject(
  bucket: Bucket,
  key: string,
  localPath: string,
  options: OpOptions,
): Promise<boolean> {
  return await withUpload(bucket, key, localPath, options, async (upload) => {
    try {
      await insertObject(bucket, upload, { ifGenerationMatch: '0' })
      return true
    } catch (error) {
      upload.signal.throwIfAborted()
      if (hasStatus(error, 412)) return false
      if (isOtherContent(error)) throw keepsChanging(key, localPath, error)
      if (!mayHaveHappened(error)) throw error
      const message = `whether ${quoteKey(key)} was created is not known: ${(error as Error).message}`
      throw new NexusError('OUTCOME_UNKNOWN', message, { op: 'objectstore.putIfAbsent', key, cause: error })
    }
  })
}

function mayHaveHappened(error: unknown): boolean {
  if (!(error instanceof GcsError)) return false
  const { failure } = error
  if (failure.kind === 'network') return failure.sent
  // A conflict is a refusal; what a gateway says about a backend that went silent is none.
  return failure.kind === 'answer' && failure.status !== 409 && classifyGcsError(error) === 'temporary'
}

async function withUpload<T>(
  bucket: Bucket,
  key: string,
  localPath: string,
  { signal = new AbortController().signal, onProgress }: OpOptions,
  run: (upload: Upload) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const source = await LocalSource.open(localPath)
  try {
    const tally = new Tally(source.sizeBytes, onProgress)
    const crc32c = await source.crc32c(signal)
    const value = await run({ name: objectName(bucket, key), source, crc32c, signal, tally })
    if (value !== false) tally.finished()
    return value
  } finally {
    await source.close()
  }
}
