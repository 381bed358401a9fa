import { randomBytes } from 'node:crypto'
import { type Bucket, uploadUrl } from '../bucket.ts'
import type { ApiRequest } from '../client/client.ts'
import { checkStored, CONTENT_TYPE, metadataOf, type Upload } from './upload-job.ts'

/**
 * Uploads metadata and content in one request.
 *
 * @see https://cloud.google.com/storage/docs/uploading-objects#rest-upload-objects
 */
export async function insertObject(bucket: Bucket, upload: Upload, query: Record<string, string>): Promise<void> {
  const { name, source, signal, tally } = upload
  const boundary = `nexus-${randomBytes(16).toString('hex')}`
  const head =
    `--${boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n${metadataOf(bucket, upload)}\r\n` +
    `--${boundary}\r\nContent-Type: ${CONTENT_TYPE}\r\n\r\n`
  const tail = `\r\n--${boundary}--`
  const { kmsKeyName } = bucket.options
  const request: ApiRequest = {
    op: 'objects.insert',
    method: 'POST',
    url: uploadUrl(bucket, { uploadType: 'multipart', name, kmsKeyName, ...query }),
    headers: { 'Content-Type': `multipart/related; boundary=${boundary}` },
    body: {
      sizeBytes: Buffer.byteLength(head) + source.sizeBytes + tail.length,
      open: (onBytes) => {
        tally.from(0)
        return source.stream(0, source.sizeBytes, onBytes, head, tail)
      },
    },
    onSent: (bytes) => tally.moved(bytes),
    signal,
  }
  await bucket.client.send(request, (answer) => checkStored(answer, upload, request.op))
}
