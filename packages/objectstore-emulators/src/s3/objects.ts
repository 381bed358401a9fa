import type { IncomingHttpHeaders } from 'node:http'
import { type StoredObject } from './bucket.ts'
import type { Answer, Exchange } from './exchange.ts'
import { noSuchKey, preconditionFailed, Refusal } from './refusal.ts'
import { receiveBody } from './upload-body.ts'
import { elementsOf, escapeXml, unescapeXml, xmlDocument } from './xml.ts'

/** Headers of an upload that a download repeats. */
const KEPT = [
  'content-type',
  'x-amz-storage-class',
  'x-amz-server-side-encryption',
  'x-amz-server-side-encryption-aws-kms-key-id',
]

export function keptHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(KEPT.flatMap((name) => (typeof headers[name] === 'string' ? [[name, headers[name]]] : [])))
}

/** Stores an object unless a condition forbids it; nothing else happens between the look and the write. */
export function storeObject({ bucketState, key, request, quirks }: Exchange, object: StoredObject): void {
  if (request.headers['if-none-match'] === '*' && quirks.ignoresIfNoneMatch !== true && bucketState.objects.has(key)) {
    throw preconditionFailed()
  }
  bucketState.objects.set(key, object)
}

export async function putObject(exchange: Exchange): Promise<Answer> {
  if (Buffer.byteLength(exchange.key) > 1024) throw new Refusal(400, 'KeyTooLongError', 'Your key is too long')
  const { extent, md5, checksums } = await receiveBody(exchange)
  const etag = `"${md5}"`
  storeObject(exchange, {
    extents: [extent],
    sizeBytes: extent.sizeBytes,
    etag,
    modified: new Date(),
    headers: { ...keptHeaders(exchange.request.headers), ...checksums },
  })
  return { status: 200, headers: { etag, ...checksums } }
}

export function getObject(exchange: Exchange): Answer {
  const { request, bodies, quirks } = exchange
  const object = findObject(exchange)
  const range = quirks.ignoresRanges === true ? undefined : rangeOf(request.headers.range, object.sizeBytes)
  // The stored checksum is that of the whole.
  const withChecksums = range === undefined && request.headers['x-amz-checksum-mode'] === 'ENABLED'
  const headers = downloadHeaders(object, withChecksums)
  const { offset: first, length } = range ?? { offset: 0, length: object.sizeBytes }
  const offset = first + (range === undefined ? 0 : (quirks.shiftsRanges ?? 0))
  return {
    status: range === undefined ? 200 : 206,
    headers:
      range === undefined
        ? headers
        : { ...headers, 'content-range': `bytes ${offset}-${offset + length - 1}/${object.sizeBytes}` },
    body: { sizeBytes: length, read: (bytes) => bodies.read(object.extents, offset, Math.min(bytes, length)) },
  }
}

export function headObject(exchange: Exchange): Answer {
  const object = findObject(exchange)
  return { status: 200, headers: { ...downloadHeaders(object, false), 'content-length': String(object.sizeBytes) } }
}

export function deleteObject({ bucketState, key }: Exchange): Answer {
  bucketState.objects.delete(key)
  return { status: 204 }
}

export async function deleteObjects({ bucketState, request }: Exchange): Promise<Answer> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  const keys = elementsOf(Buffer.concat(chunks).toString(), 'Key').map(unescapeXml)
  for (const key of keys) bucketState.objects.delete(key)
  const deleted = keys.map((key) => `<Deleted><Key>${escapeXml(key)}</Key></Deleted>`)
  return { status: 200, body: xmlDocument('DeleteResult', deleted.join('')) }
}

function findObject({ bucketState, key, quirks }: Exchange): StoredObject {
  const object = bucketState.objects.get(key)
  if (object !== undefined) return object
  if (quirks.hidesMissingKeys === true) throw new Refusal(403, 'AccessDenied', 'Access Denied')
  throw noSuchKey(key)
}

function downloadHeaders(object: StoredObject, withChecksums: boolean): Record<string, string> {
  const headers = Object.entries(object.headers).filter(
    ([name]) => withChecksums || !name.startsWith('x-amz-checksum-'),
  )
  return {
    ...Object.fromEntries(headers),
    etag: object.etag,
    'last-modified': object.modified.toUTCString(),
    'accept-ranges': 'bytes',
  }
}

function rangeOf(header: string | undefined, sizeBytes: number): { offset: number; length: number } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(header ?? '') ?? []
  if (first === '' && last === '') return undefined
  const suffix = first === ''
  const offset = suffix ? Math.max(0, sizeBytes - Number(last)) : Number(first)
  const end = suffix || last === '' ? sizeBytes - 1 : Math.min(Number(last), sizeBytes - 1)
  if (offset >= sizeBytes || end < offset) {
    throw new Refusal(416, 'InvalidRange', 'The requested range is not satisfiable', {
      headers: { 'content-range': `bytes */${sizeBytes}` },
    })
  }
  return { offset, length: end - offset + 1 }
}
