import { uploadBody } from '../http/index.ts'
import { invalid } from './api-error.ts'
import type { BodyStore, StoredBody } from './body-store.ts'
import { conditionsOf, declaredHashes, type GcsRequest, metadataOf } from './gcs-request.ts'
import { RelatedBody } from './multipart.ts'
import type { ObjectTable, StoredObject } from './object-table.ts'

/** Bytes gathered before they are written. */
const WRITE_BYTES = 64 * 1024

/** Stores what one request carries: `uploadType=media` or `multipart`. */
export async function insertObject(table: ObjectTable, bodies: BodyStore, request: GcsRequest): Promise<StoredObject> {
  const { bucket, query, message, faults } = request
  const conditions = conditionsOf(query)
  const source = uploadBody(message, faults)
  const type = query.get('uploadType')
  const contentType = message.headers['content-type'] ?? ''
  if (type === 'multipart') {
    const related = new RelatedBody(source, contentType)
    const head = await related.head()
    const { name = request.name, metadata } = metadataOf(head.metadata, query)
    table.admit(bucket, name, conditions)
    const body = await storeBody(bodies, related.media())
    metadata.contentType ??= head.contentType ?? 'application/octet-stream'
    return table.insert(bucket, name, body, { ...metadata, ...declaredHashes(message.headers) }, conditions)
  }
  if (type !== 'media') throw invalid(`Invalid value for uploadType: ${String(type)}`)
  table.admit(bucket, request.name, conditions)
  const { metadata } = metadataOf({ contentType }, query)
  const body = await storeBody(bodies, source)
  return table.insert(bucket, request.name, body, { ...metadata, ...declaredHashes(message.headers) }, conditions)
}

async function storeBody(bodies: BodyStore, source: AsyncIterable<Buffer>): Promise<StoredBody> {
  const writer = bodies.create()
  try {
    for await (const chunk of source) writer.write(chunk, WRITE_BYTES)
    writer.settle()
    return writer.finish()
  } catch (error) {
    writer.discard()
    throw error
  }
}
