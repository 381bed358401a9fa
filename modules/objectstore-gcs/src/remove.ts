import type { OpOptions } from '@nexus/objectstore'
import { type Bucket, objectName, objectUrl, repeat } from './bucket.ts'
import { GcsError } from './errors.ts'
import { isMissingObject } from './missing.ts'

/** Removes an object; a missing one is a success. */
export async function deleteObject(
  bucket: Bucket,
  key: string,
  { signal = new AbortController().signal, onWait }: OpOptions,
): Promise<void> {
  const url = objectUrl(bucket, objectName(bucket, key))
  const request = { op: 'objects.delete', method: 'DELETE', url, signal, onWait } as const
  try {
    await repeat(bucket, request, () =>
      bucket.client.send(request, async (answer) => {
        const text = await answer.text()
        if (answer.status === 204 || text === '') return
        // A portal says yes to everything, with a page.
        const message = `${request.op} got an answer with a body, where the store sends none`
        throw new GcsError(request.op, message, { kind: 'network', code: undefined, sent: true })
      }),
    )
  } catch (error) {
    signal.throwIfAborted()
    if (!(await isMissingObject(bucket, error, { signal, onWait }))) throw error
  }
}
