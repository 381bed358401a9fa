import { blobUri } from './blob-uri.ts'
import { blobPaths } from './layout.ts'

/** A blob of the store. */
export interface BlobInfo {
  /** 64 lowercase hex digits. */
  sha256: string
  /** As given to the first put; empty when none was given or the `.meta` is gone. */
  mediaType: string
  /** Bytes. */
  size: number
  /** The `.bin` file, absolute. It is never rewritten; don't write to it. */
  path: string
  /** `nexus-blob:<sha256>` */
  uri: string
}

/** What `stat` tells. */
export interface BlobStat extends BlobInfo {
  /** Last put, get, open or stat before this one, milliseconds since the epoch. */
  mtimeMs: number
}

/** What `get` reads. */
export interface BlobContent extends BlobInfo {
  data: Buffer
}

export function blobInfo(dir: string, sha256: string, mediaType: string, size: number): BlobInfo {
  return { sha256, mediaType, size, path: blobPaths(dir, sha256).bin, uri: blobUri(sha256) }
}
