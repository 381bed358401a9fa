import type { OpOptions } from '@nexus/objectstore'
import { blobName, type Container, repeat } from './container.ts'
import { hasCode, unexpectedAnswer } from './errors.ts'

/** Removes an object; a missing one is a success, a missing container is not. */
export async function deleteObject(
  container: Container,
  key: string,
  { signal = new AbortController().signal, onWait }: OpOptions,
): Promise<void> {
  const context = { op: 'Delete Blob', signal, onWait }
  try {
    await repeat(container, context, () =>
      container.client.send(context, async (blobs, { signal: abortSignal }) => {
        const blob = blobs.getBlobClient(blobName(container, key))
        const { requestId } = await blob.delete({ deleteSnapshots: 'include', abortSignal })
        if (requestId === undefined) throw unexpectedAnswer(context.op, 'an answer without a request id')
      }),
    )
  } catch (error) {
    if (!hasCode(error, 'BlobNotFound')) throw error
  }
}
