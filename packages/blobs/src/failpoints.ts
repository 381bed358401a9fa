/**
 * Every failpoint of this package, in the order a put and then a sweep pass them. A crash at any of them leaves no `.bin`
 * with wrong content and loses no blob whose put had resolved.
 */
export const FAILPOINTS = [
  'blobs:temp-created',
  'blobs:chunk-written',
  'blobs:temp-synced',
  'blobs:meta-written',
  'blobs:bin-renamed',
  'blobs:directory-synced',
  'blobs:meta-synced',
  'blobs:bin-evicted',
  'blobs:evicted',
] as const

/** One of {@link FAILPOINTS}. */
export type BlobFailpoint = (typeof FAILPOINTS)[number]
