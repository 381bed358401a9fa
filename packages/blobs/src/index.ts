// The store
export { BlobStore, type BlobPutOptions, type BlobStoreOptions } from './blob-store.ts'
export type { BlobContent, BlobInfo, BlobStat } from './blob-info.ts'
export type { BlobSource } from './write/blob-source.ts'
export type { SweepResult } from './sweep/sweep.ts'
export type { VerifyResult } from './read/verify.ts'
export { BlobCorruptError, BlobNotFoundError, type BlobMismatch } from './blob-errors.ts'

// Names
export { blobUri, parseBlobUri } from './blob-uri.ts'
export { blobPaths, type BlobPaths } from './layout.ts'

// For tests that fail or kill at every step
export { FAILPOINTS, type BlobFailpoint } from './failpoints.ts'
export type { BlobFileSystem } from './file-system.ts'
