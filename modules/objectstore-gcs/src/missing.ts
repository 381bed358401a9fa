import type { Waiter } from '@nexus/objectstore'
import { type Bucket, objectUrl, repeat } from './bucket.ts'
import { hasStatus } from './errors.ts'

/**
 * Whether a 404 is about the object. The store answers 404 for a missing object and for a missing bucket, and taking the one
 * for the other would read a mistyped store as one that has never seen the session. So the bucket is asked for.
 *
 * @throws GcsError of the missing bucket, or of one that may not be listed
 */
export async function isMissingObject(
  bucket: Bucket,
  error: unknown,
  waiter: Waiter & { signal: AbortSignal },
): Promise<boolean> {
  if (!hasStatus(error, 404)) return false
  const url = objectUrl(bucket, undefined, { maxResults: '1', fields: 'kind' })
  const request = { op: 'objects.list', method: 'GET', url, ...waiter } as const
  return repeat(bucket, waiter, () =>
    bucket.client.send(request, async (answer) => {
      const listing: unknown = JSON.parse(await answer.text())
      return (listing as { kind?: unknown } | null)?.kind === 'storage#objects'
    }),
  )
}
