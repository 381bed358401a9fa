import type { Extent } from './body-store.ts'

/** One stored object. */
export interface StoredObject {
  extents: Extent[]
  sizeBytes: number
  /** With its quotes. */
  etag: string
  modified: Date
  /** Headers that a download repeats: checksums, type, class, encryption. */
  headers: Record<string, string>
}

/** One part of a multipart upload. */
export interface StoredPart {
  extent: Extent
  /** Hex, without quotes. */
  md5: string
  modified: Date
}

/** A multipart upload that is neither completed nor aborted. */
export interface OpenUpload {
  key: string
  uploadId: string
  begun: Date
  parts: Map<number, StoredPart>
  headers: Record<string, string>
}

/** One bucket. */
export interface Bucket {
  region: string
  objects: Map<string, StoredObject>
  uploads: Map<string, OpenUpload>
  /** What listings show instead of the objects, while they lag. */
  shown: Map<string, StoredObject> | undefined
}

/** Keys in the order of their UTF-8 bytes, which is that of listings. */
export function sortedKeys(keys: Iterable<string>): string[] {
  return [...keys]
    .map((key) => ({ key, bytes: Buffer.from(key) }))
    .toSorted((a, b) => a.bytes.compare(b.bytes))
    .map(({ key }) => key)
}
