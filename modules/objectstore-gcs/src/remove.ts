import type { OpOptions } from '@nexus/objectstore'
import { type Bucket, objectName, objectUrl } from './bucket.ts'
import { isMissingObject } from './missing.ts'
import { withRetries } from './client/retry.ts'

/** Removes an object; a missing one is a success. */
export async function deleteObject(
  bucket: Bucket,
  key: string,
  { signal = new AbortController().signal }: OpOptions,
): Promise<void> {
  const url = objectUrl(bucket, objectName(bucket, key))
  try {
    await withRetries(bucket.retry, signal, () =>
      bucket.client.send({ op: 'objects.delete', method: 'DELETE', url, signal }, (answer) => answer.text()),
    )
  } catch (error) {
    signal.throwIfAborted()
    if (!(await isMissingObject(bucket, error, signal))) throw error
  }
}
