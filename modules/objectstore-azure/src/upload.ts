import { monotonicProgress, NexusError, type OpOptions, openSnapshot, quoteKey } from '@nexus/objectstore'
import { blobName, type Container, repeat } from './container.ts'
import { hasCode } from './errors.ts'
import { uploadInBlocks } from './transfer/blocks.ts'
import { putBlob } from './transfer/single.ts'
import type { Upload } from './transfer/upload-job.ts'

/** The protocol's limit of one request. */
const MAX_SINGLE_BYTES = 5000 * 1024 * 1024

/** Stores a file's first `size` bytes under a key, whatever is there. Repeated until it is in: the content is the same. */
export async function putObject(
  container: Container,
  key: string,
  localPath: string,
  options: OpOptions,
): Promise<void> {
  await withUpload(container, key, localPath, options, async (upload) => {
    if (upload.file.size > container.options.blockThresholdBytes) await uploadInBlocks(container, upload)
    else await repeat(container, upload, () => putBlob(container, upload))
  })
}

/**
 * Creates an object if its name is free, in one attempt.
 *
 * @returns whether it was created
 * @throws AzureError what the attempt failed with: it may have happened
 */
export async function createObject(
  container: Container,
  key: string,
  localPath: string,
  options: OpOptions,
): Promise<boolean> {
  let isFree = true
  await withUpload(container, key, localPath, options, async (upload) => {
    if (upload.file.size > MAX_SINGLE_BYTES) {
      const message = `${quoteKey(key)} has ${upload.file.size} bytes: an object can be created conditionally in one request only, of 5,000 MiB at most`
      throw new NexusError('UNSUPPORTED', message, { op: 'objectstore.putIfAbsent', key })
    }
    try {
      await putBlob(container, upload, { ifNoneMatch: '*' })
    } catch (error) {
      if (!isTaken(error)) throw error
      isFree = false
    }
  })
  return isFree
}

/**
 * Whether a conditional create was refused because the name is taken: 409 by the service, 412 where the condition itself is
 * evaluated. Other refusals with these statuses say nothing of it: a lease, a policy, a container that is being deleted.
 *
 * @see https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
 */
export function isTaken(error: unknown): boolean {
  return hasCode(error, 'BlobAlreadyExists', 'ConditionNotMet')
}

async function withUpload(
  container: Container,
  key: string,
  localPath: string,
  { signal = new AbortController().signal, onProgress, onWait }: OpOptions,
  store: (upload: Upload) => Promise<void>,
): Promise<void> {
  signal.throwIfAborted()
  const file = await openSnapshot(localPath)
  try {
    const progress = monotonicProgress(onProgress)
    await store({ name: blobName(container, key), file, signal, onWait, progress })
    progress.finished(file.size)
  } finally {
    await file.close()
  }
}
