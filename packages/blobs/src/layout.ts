import { join } from 'node:path'

/**
 * Where a blob lives below the store's directory: `<xx>/<sha256>.bin` and `<xx>/<sha256>.meta`, `xx` being the first two
 * digits. The caller guarantees a valid digest.
 *
 * @see docs/formats/session-tree.md
 */
export interface BlobPaths {
  shard: string
  bin: string
  meta: string
}

/** Where a blob lies below `dir`. The digest is taken as it is: the caller has checked it. */
export function blobPaths(dir: string, sha256: string): BlobPaths {
  const shard = join(dir, sha256.slice(0, 2))
  const base = `${shard}/${sha256}`
  return { shard, bin: `${base}.bin`, meta: `${base}.meta` }
}

export const SHARD_PATTERN: RegExp = /^[0-9a-f]{2}$/

/** The text of a `.meta` file: the media type and the size in bytes, a line each. */
export function encodeMeta(mediaType: string, sizeBytes: number): string {
  return `${mediaType}\n${sizeBytes}\n`
}

/** What a `.meta` file says, or undefined when it is not whole: an empty, torn or foreign one counts as absent. */
export function parseMeta(text: string): { mediaType: string; sizeBytes: number } | undefined {
  const match = /^([^\n]*)\n(\d{1,16})\n$/.exec(text)
  if (match === null) return undefined
  return { mediaType: match[1] ?? '', sizeBytes: Number(match[2]) }
}

// A media type is one line of the .meta file, so nothing that could end or forge a line may be in it.
// eslint-disable-next-line no-control-regex
const BAD_MEDIA_TYPE = /[\u0000-\u001f\u007f\ud800-\udfff]/u

/** Why the text can't be a media type, or undefined when it can. */
export function mediaTypeFault(mediaType: unknown): string | undefined {
  if (typeof mediaType !== 'string') return 'it is not a string'
  if (mediaType.length > 1024) return 'it is longer than 1024 characters'
  return BAD_MEDIA_TYPE.test(mediaType) ? 'it holds a control character or a lone surrogate' : undefined
}
