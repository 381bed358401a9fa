import { type Bucket, objectUrl } from './bucket.ts'
import { classifyGcsError, hasStatus } from './errors.ts'
import { withRetries } from './retry.ts'

/**
 * Whether a 404 is about the object. The vendor says so; of others that only say "not found" the bucket is asked for: taking
 * a missing bucket for a missing object would read a mistyped store as one that has never seen the session.
 */
export async function isMissingObject(bucket: Bucket, error: unknown, signal: AbortSignal): Promise<boolean> {
  if (!hasStatus(error, 404)) return false
  if (classifyGcsError(error) === 'not-found') return true
  if (error.message.includes('bucket does not exist')) return false
  const url = objectUrl(bucket, undefined, { maxResults: '1', fields: 'kind' })
  try {
    return await withRetries(bucket.retry, signal, () =>
      bucket.client.send({ op: 'objects.list', method: 'GET', url, signal }, async (answer) => {
        return (JSON.parse(await answer.text()) as { kind?: unknown }).kind === 'storage#objects'
      }),
    )
  } catch {
    signal.throwIfAborted()
    return false
  }
}
