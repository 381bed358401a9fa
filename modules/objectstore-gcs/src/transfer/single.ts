import { randomBytes } from 'node:crypto'
import { type Bucket, uploadUrl } from '../bucket.ts'
import type { ApiRequest } from '../client/client.ts'
import { partStream } from './part-stream.ts'
import { checkStored, CONTENT_TYPE, metadataOf, type Upload } from './upload-job.ts'

/**
 * Uploads metadata and content in one request.
 *
 * @see https://cloud.google.com/storage/docs/uploading-objects#rest-upload-objects
 */
export async function insertObject(bucket: Bucket, upload: Upload, query: Record<string, string>): Promise<void> {
  const { name, file, signal, onWait, progress } = upload
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
      sizeBytes: Buffer.byteLength(head) + file.size + tail.length,
      open: (onBytes) => {
        progress.begin()
        return partStream(file, { offset: 0, length: file.size, head, tail }, onBytes)
      },
    },
    onSent: (bytes) => progress.moved(bytes),
    signal,
    onWait,
  }
  await bucket.client.send(request, (answer) => checkStored(answer, upload, request.op))
}
