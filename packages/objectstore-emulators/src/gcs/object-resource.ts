import type { StoredObject } from './object-table.ts'

/** An object as the JSON API shows it. @see https://cloud.google.com/storage/docs/json_api/v1/objects#resource */
export function objectResource(bucket: string, object: StoredObject): Record<string, unknown> {
  const { name, generation, metageneration, updatedMs, body, metadata } = object
  const time = new Date(updatedMs).toISOString()
  return {
    kind: 'storage#object',
    id: `${bucket}/${name}/${generation}`,
    name,
    bucket,
    generation: String(generation),
    metageneration: String(metageneration),
    contentType: metadata.contentType ?? 'application/octet-stream',
    ...(metadata.contentEncoding === undefined ? {} : { contentEncoding: metadata.contentEncoding }),
    ...(metadata.kmsKeyName === undefined ? {} : { kmsKeyName: metadata.kmsKeyName }),
    storageClass: metadata.storageClass ?? 'STANDARD',
    size: String(body.sizeBytes),
    crc32c: body.crc32c,
    ...(body.md5 === undefined ? {} : { md5Hash: body.md5 }),
    etag: `E${generation}`,
    timeCreated: time,
    updated: time,
  }
}
