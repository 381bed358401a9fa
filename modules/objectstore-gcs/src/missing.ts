import { type Bucket, objectUrl } from './bucket.ts'
import { classifyGcsError, hasStatus } from './errors.ts'
import { withRetries } from './client/retry.ts'

/**
 * Whether a 404 is about the object. Taking a missing bucket for a missing object would read a mistyped store as one that has
 * never seen the session, and the vendor has answered "no such object" for both, emulators answer "not found" for both. So the
 * bucket is asked for, unless it has answered before.
 *
 * @throws GcsError of the missing bucket
 */
export async function isMissingObject(bucket: Bucket, error: unknown, signal: AbortSignal): Promise<boolean> {
  if (!hasStatus(error, 404) || error.message.includes('bucket does not exist')) return false
  const explicit = classifyGcsError(error) === 'not-found'
  if (explicit && bucket.client.hasSucceeded) return true
  const url = objectUrl(bucket, undefined, { maxResults: '1', fields: 'kind' })
  try {
    return await withRetries(bucket.retry, signal, () =>
      bucket.client.send({ op: 'objects.list', method: 'GET', url, signal }, async (answer) => {
        return (JSON.parse(await answer.text()) as { kind?: unknown }).kind === 'storage#objects'
      }),
    )
  } catch (failure) {
    signal.throwIfAborted()
    if (hasStatus(failure, 404)) throw failure
    // Who may not list, or not now, has the store's own word.
    return explicit
  }
}
