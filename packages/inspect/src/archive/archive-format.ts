import { NexusError } from '@nexus/errors'
import type { Manifest } from '@nexus/durability/tools'

/** First in an archive: what is in it, as the manifest of a commit says it. */
export const MANIFEST_NAME = 'manifest.json'
/** Last in an archive: proves that it is whole. */
export const TRAILER_NAME = 'trailer.json'
/** Above the paths of the session. */
export const TREE_NAME = 'session'
/** Far above the manifest of a million files. */
export const MOST_MANIFEST_BYTES: number = 512 * 1024 * 1024
export const MOST_TRAILER_BYTES: number = 64 * 1024

const TRAILER_SCHEMA_VERSION = 1

/** One thing that an archive holds, at its place in the order. */
export interface ArchiveItem {
  /** As in the archive. */
  readonly name: string
  readonly kind: 'file' | 'directory' | 'link'
  readonly sizeBytes: number
  /** Of a link. */
  readonly target: string
}

/** What follows the manifest, in the one order that there is: directories, files, links, each by path. */
export function* archiveItems({ dirs, objects, entries, links }: Manifest): Generator<ArchiveItem & { path: string }> {
  for (const path of Object.keys(dirs).toSorted()) yield { ...at(path), kind: 'directory', sizeBytes: 0, target: '' }
  for (const path of objects) yield { ...at(path), kind: 'file', sizeBytes: entries[path]?.size ?? 0, target: '' }
  for (const path of Object.keys(links).toSorted()) {
    yield { ...at(path), kind: 'link', sizeBytes: 0, target: links[path]?.target ?? '' }
  }
}

function at(path: string): { path: string; name: string } {
  return { path, name: `${TREE_NAME}/${path}` }
}

/** What the trailer says. The manifest has the digest of every file, so its own stands for all of it. */
export interface Trailer {
  readonly manifestSha256: string
  readonly files: number
  readonly bytes: number
}

export function serializeTrailer({ manifestSha256, files, bytes }: Trailer): string {
  return `${JSON.stringify({ _schema_version: TRAILER_SCHEMA_VERSION, manifest_sha256: manifestSha256, files, bytes })}\n`
}

/** Rejects with `CORRUPT` unless the bytes are the trailer that an archive of this content has. */
export function checkTrailer(bytes: Buffer, expected: Trailer): void {
  if (bytes.toString('utf8') === serializeTrailer(expected)) return
  throw refused('its trailer does not fit what is in it')
}

/** What an archive is refused with. */
export function refused(why: string, cause?: unknown): NexusError {
  return new NexusError('CORRUPT', `the archive is refused: ${why}. Nothing was placed`, { op: 'import', cause })
}
