import { createHash, randomBytes } from 'node:crypto'
import { type OpenUpload, sortedKeys } from './bucket.ts'
import type { Answer, Exchange } from './exchange.ts'
import { keptHeaders, storeObject } from './objects.ts'
import { Refusal } from './refusal.ts'
import { receiveBody } from './upload-body.ts'
import { elementsOf, escapeXml, unescapeXml, xmlDocument } from './xml.ts'

/** All parts but the last must have that much. */
const LEAST_PART_BYTES = 5 * 1024 * 1024

export function createMultipartUpload({ bucketState, bucket, key, request }: Exchange): Answer {
  const uploadId = randomBytes(16).toString('hex')
  bucketState.uploads.set(uploadId, {
    key,
    uploadId,
    begun: new Date(),
    parts: new Map(),
    headers: keptHeaders(request.headers),
  })
  // The client of MinIO takes an answer without a location for none.
  const location = escapeXml(`/${bucket}/${key}`)
  const inner = `<Location>${location}</Location><Bucket>${bucket}</Bucket><Key>${escapeXml(key)}</Key><UploadId>${uploadId}</UploadId>`
  return { status: 200, body: xmlDocument('InitiateMultipartUploadResult', inner) }
}

export async function uploadPart(exchange: Exchange): Promise<Answer> {
  const upload = findUpload(exchange)
  const number = Number(exchange.query.get('partNumber'))
  if (!(Number.isInteger(number) && number >= 1 && number <= 10_000)) {
    throw new Refusal(400, 'InvalidArgument', 'Part number must be an integer between 1 and 10000, inclusive')
  }
  const { extent, md5, checksums } = await receiveBody(exchange)
  upload.parts.set(number, { extent, md5, modified: new Date() })
  return { status: 200, headers: { etag: `"${md5}"`, ...checksums } }
}

export async function completeMultipartUpload(exchange: Exchange): Promise<Answer> {
  const { bucketState, bucket, key, request } = exchange
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  const upload = findUpload(exchange)
  const parts = elementsOf(Buffer.concat(chunks).toString(), 'Part').map((xml, index, all) => {
    const part = upload.parts.get(Number(elementsOf(xml, 'PartNumber')[0]))
    const etag = unescapeXml(elementsOf(xml, 'ETag')[0] ?? '').replaceAll('"', '')
    if (part === undefined || part.md5 !== etag) {
      throw new Refusal(400, 'InvalidPart', 'One or more of the specified parts could not be found.')
    }
    if (index < all.length - 1 && part.extent.sizeBytes < LEAST_PART_BYTES) {
      throw new Refusal(400, 'EntityTooSmall', 'Your proposed upload is smaller than the minimum allowed size')
    }
    return part
  })
  if (parts.length === 0) throw new Refusal(400, 'MalformedXML', 'The XML you provided was not well-formed')
  const md5s = Buffer.concat(parts.map(({ md5 }) => Buffer.from(md5, 'hex')))
  const etag = `"${createHash('md5').update(md5s).digest('hex')}-${parts.length}"`
  storeObject(exchange, {
    extents: parts.map(({ extent }) => extent),
    sizeBytes: parts.reduce((sum, { extent }) => sum + extent.sizeBytes, 0),
    etag,
    modified: new Date(),
    headers: upload.headers,
  })
  bucketState.uploads.delete(upload.uploadId)
  // The client of MinIO takes an answer without a location for none.
  const location = escapeXml(`/${bucket}/${key}`)
  const inner = `<Location>${location}</Location><Bucket>${bucket}</Bucket><Key>${escapeXml(key)}</Key><ETag>${escapeXml(etag)}</ETag>`
  return { status: 200, body: xmlDocument('CompleteMultipartUploadResult', inner) }
}

export function abortMultipartUpload(exchange: Exchange): Answer {
  exchange.bucketState.uploads.delete(findUpload(exchange).uploadId)
  return { status: 204 }
}

export function listParts(exchange: Exchange): Answer {
  const { bucket, key } = exchange
  const { uploadId, parts } = findUpload(exchange)
  const items = [...parts]
    .toSorted(([a], [b]) => a - b)
    .map(
      ([number, { extent, md5, modified }]) =>
        `<Part><PartNumber>${number}</PartNumber><LastModified>${modified.toISOString()}</LastModified>` +
        `<ETag>&quot;${md5}&quot;</ETag><Size>${extent.sizeBytes}</Size></Part>`,
    )
  const inner =
    `<Bucket>${bucket}</Bucket><Key>${escapeXml(key)}</Key><UploadId>${uploadId}</UploadId>` +
    `<IsTruncated>false</IsTruncated>${items.join('')}`
  return { status: 200, body: xmlDocument('ListPartsResult', inner) }
}

export function listMultipartUploads({ bucketState, bucket, query }: Exchange): Answer {
  const prefix = query.get('prefix') ?? ''
  const uploads = [...bucketState.uploads.values()].filter(({ key }) => key.startsWith(prefix))
  const keys = sortedKeys(new Set(uploads.map(({ key }) => key)))
  const items = keys.flatMap((key) =>
    uploads
      .filter((upload) => upload.key === key)
      .map(
        ({ uploadId, begun }) =>
          `<Upload><Key>${escapeXml(key)}</Key><UploadId>${uploadId}</UploadId>` +
          `<StorageClass>STANDARD</StorageClass><Initiated>${begun.toISOString()}</Initiated></Upload>`,
      ),
  )
  const inner = `<Bucket>${bucket}</Bucket><Prefix>${escapeXml(prefix)}</Prefix><IsTruncated>false</IsTruncated>${items.join('')}`
  return { status: 200, body: xmlDocument('ListMultipartUploadsResult', inner) }
}

function findUpload({ bucketState, key, query }: Exchange): OpenUpload {
  const upload = bucketState.uploads.get(query.get('uploadId') ?? '')
  if (upload !== undefined && upload.key === key) return upload
  const message =
    'The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted.'
  throw new Refusal(404, 'NoSuchUpload', message)
}
