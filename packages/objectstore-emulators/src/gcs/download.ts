import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { createGunzip } from 'node:zlib'
import { Readable } from 'node:stream'
import { sendBody } from '../http/index.ts'
import { ApiError } from './api-error.ts'
import type { BodyStore } from './body-store.ts'
import type { GcsRequest } from './gcs-request.ts'
import type { StoredObject } from './object-table.ts'
import type { GcsQuirks } from './quirks.ts'

interface Span {
  offset: number
  sizeBytes: number
  partial: boolean
}

/** Answers `alt=media`. @see https://cloud.google.com/storage/docs/json_api/v1/objects/get */
export async function sendObject(
  bodies: BodyStore,
  object: StoredObject,
  request: GcsRequest,
  response: ServerResponse,
  quirks: GcsQuirks = {},
): Promise<void> {
  const { body, metadata, generation, metageneration } = object
  const { headers } = request.message
  const hashes = [`crc32c=${body.crc32c}`, ...(body.md5 === undefined ? [] : [`md5=${body.md5}`])]
  const answer: OutgoingHttpHeaders = {
    'content-type': metadata.contentType ?? 'application/octet-stream',
    'x-goog-generation': String(generation),
    'x-goog-metageneration': String(metageneration),
    'x-goog-hash': hashes.join(','),
    'x-goog-stored-content-length': String(body.sizeBytes),
    'x-goog-stored-content-encoding': metadata.contentEncoding ?? 'identity',
    'x-goog-storage-class': metadata.storageClass ?? 'STANDARD',
    'last-modified': new Date(object.updatedMs).toUTCString(),
    'accept-ranges': 'bytes',
  }
  const gzipped = metadata.contentEncoding === 'gzip'
  if (gzipped && !/\bgzip\b/.test(headers['accept-encoding'] ?? '')) {
    // Decompressive transcoding: no length, and ranges are ignored.
    response.writeHead(200, { ...answer, warning: '214 UploadServer gunzipped' })
    for await (const chunk of Readable.from(bodies.read(body, 0, body.sizeBytes)).pipe(createGunzip())) {
      response.write(chunk)
    }
    response.end()
    return
  }
  if (metadata.contentEncoding !== undefined) answer['content-encoding'] = metadata.contentEncoding
  const span = spanOf(headers.range, body.sizeBytes)
  for (const name of quirks.omits ?? []) delete answer[name]
  if (span.partial) {
    span.offset += quirks.shiftsRanges ?? 0
    answer['content-range'] = `bytes ${span.offset}-${span.offset + span.sizeBytes - 1}/${body.sizeBytes}`
  }
  const read = (bytes: number): AsyncIterable<Buffer> => bodies.read(body, span.offset, bytes)
  const status = span.partial ? 206 : 200
  await sendBody(
    request.message,
    response,
    { status, headers: answer, sizeBytes: span.sizeBytes, read },
    request.faults,
  )
}

function spanOf(range: string | undefined, sizeBytes: number): Span {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(range ?? '') ?? []
  if (first === undefined || last === undefined || (first === '' && last === '')) {
    return { offset: 0, sizeBytes, partial: false }
  }
  const offset = first === '' ? Math.max(0, sizeBytes - Number(last)) : Number(first)
  const end = first === '' || last === '' ? sizeBytes : Math.min(Number(last) + 1, sizeBytes)
  if (offset >= sizeBytes || end <= offset) {
    const message = 'The requested range cannot be satisfied.'
    throw new ApiError(416, 'requestedRangeNotSatisfiable', message, { 'content-range': `bytes */${sizeBytes}` })
  }
  return { offset, sizeBytes: end - offset, partial: true }
}
