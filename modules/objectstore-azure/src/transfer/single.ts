import { createHash } from 'node:crypto'
import type { BlobRequestConditions } from '@azure/storage-blob'
import type { Container } from '../container.ts'
import { AzureError, unexpectedAnswer } from '../errors.ts'
import { CONTENT_TYPE, openBody, storedAs, type Upload } from './upload-job.ts'

const OP = 'Put Blob'

/**
 * Uploads a file in one request, which replaces the blob whole, or not at all.
 *
 * @throws AzureError also when the store says that it has got other bytes than were sent
 * @see https://learn.microsoft.com/rest/api/storageservices/put-blob
 */
export async function putBlob(
  container: Container,
  upload: Upload,
  conditions: BlobRequestConditions = {},
): Promise<void> {
  const { name, file, signal, onWait } = upload
  const context = { op: OP, signal, onWait, sentBytes: file.size }
  let sent = createHash('md5')
  const { etag, contentMD5 } = await container.client.send(context, (blobs, attempt) => {
    // The SDK opens it again when it renews a token.
    const body = () => {
      sent = createHash('md5')
      return openBody(upload, 0, file.size, attempt, (chunk) => void sent.update(chunk))
    }
    const settings = { ...storedAs(container), blobHTTPHeaders: { blobContentType: CONTENT_TYPE } }
    const blob = blobs.getBlockBlobClient(name)
    return blob.upload(body, file.size, { ...settings, conditions, abortSignal: attempt.signal })
  })
  if (etag === undefined) throw unexpectedAnswer(OP, 'an answer without an ETag')
  if (contentMD5 === undefined || sent.digest().equals(contentMD5)) return
  const message = `${OP} stored other bytes than were sent: their MD5 differs`
  throw new AzureError(OP, message, { kind: 'network', code: undefined, sent: true })
}
