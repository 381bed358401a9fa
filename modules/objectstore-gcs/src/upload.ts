import { monotonicProgress, NexusError, type OpOptions, openSnapshot, quoteKey } from '@nexus/objectstore'
import { type Bucket, objectName, repeat } from './bucket.ts'
import { hasStatus } from './errors.ts'
import { crc32cOf } from './transfer/crc32c.ts'
import { uploadInChunks } from './transfer/parts.ts'
import { insertObject } from './transfer/single.ts'
import type { Upload } from './transfer/upload-job.ts'

/** How often a file whose content changes between its checksum and its upload is read. */
const MOST_READS = 3

/** Stores a file's first `size` bytes under a key, whatever is there. Repeated until it is in: the content is the same. */
export async function putObject(bucket: Bucket, key: string, localPath: string, options: OpOptions): Promise<void> {
  await withUpload(bucket, key, localPath, options, async (upload) => {
    const chunked = upload.file.size > bucket.options.resumableThresholdBytes
    for (let reads = 1; ; reads++) {
      try {
        if (chunked) await uploadInChunks(bucket, upload)
        else await repeat(bucket, upload, () => insertObject(bucket, upload, {}))
        return true
      } catch (error) {
        if (!(await hasChanged(upload, error))) throw error
        if (reads === MOST_READS) throw keepsChanging(key, localPath, error)
      }
    }
  })
}

/**
 * Creates an object if its name is free, in one attempt.
 *
 * @returns whether it was created
 * @throws GcsError what the attempt failed with: it may have happened
 */
export async function createObject(
  bucket: Bucket,
  key: string,
  localPath: string,
  options: OpOptions,
): Promise<boolean> {
  return withUpload(bucket, key, localPath, options, async (upload) => {
    try {
      await insertObject(bucket, upload, { ifGenerationMatch: '0' })
      return true
    } catch (error) {
      upload.signal.throwIfAborted()
      if (hasStatus(error, 412)) return false
      throw (await hasChanged(upload, error)) ? keepsChanging(key, localPath, error) : error
    }
  })
}

/**
 * Whether the store refused a request because the content is not that of the checksum that came with it: its code for that
 * stands for much else, but the file tells. The upload has the new checksum then.
 */
async function hasChanged(upload: Upload, error: unknown): Promise<boolean> {
  if (!hasStatus(error, 400)) return false
  const crc32c = await crc32cOf(upload.file, upload.signal)
  const changed = crc32c !== upload.crc32c
  upload.crc32c = crc32c
  return changed
}

function keepsChanging(key: string, path: string, cause: unknown): NexusError {
  const message = `${path} kept changing while it was stored as ${quoteKey(key)}`
  return new NexusError('UNAVAILABLE', message, { op: 'objectstore.put', key, cause })
}

async function withUpload(
  bucket: Bucket,
  key: string,
  localPath: string,
  { signal = new AbortController().signal, onProgress, onWait }: OpOptions,
  run: (upload: Upload) => Promise<boolean>,
): Promise<boolean> {
  signal.throwIfAborted()
  const file = await openSnapshot(localPath)
  try {
    const progress = monotonicProgress(onProgress)
    const crc32c = await crc32cOf(file, signal)
    const stored = await run({ name: objectName(bucket, key), file, crc32c, signal, onWait, progress })
    if (stored) progress.finished(file.size)
    return stored
  } finally {
    await file.close()
  }
}
