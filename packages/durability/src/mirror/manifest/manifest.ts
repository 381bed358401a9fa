import type { Committed, CommittedDir, CommittedFile, CommittedLink } from '../../tree/committed.ts'

/** The manifest schema this build writes. It reads this one and 1. */
export const MANIFEST_SCHEMA_VERSION = 2

export type ManifestEntry = CommittedFile
export type ManifestDir = CommittedDir
export type ManifestLink = CommittedLink

/**
 * The manifest as it is stored: a commit of the mirror layout. Field names are as on the wire.
 *
 * @see docs/formats/object-store.md
 */
export interface Manifest extends Committed {
  /** 2, or 1 for one written by an older build: then `entries`, `dirs`, `links` are empty and `nonce` is ''. */
  _schema_version: number
  session_id: string
  /** RFC 3339. */
  completed_at: string
  key_prefix: string
}

const SLICE = 1000

/**
 * The manifest as JSON text, in pieces of at most some hundred KiB, so that one of a hundred thousand files can be
 * written without holding the event loop. Who committed stands in front of everything that grows: the first KiB says it.
 */
export function* manifestPieces(manifest: Manifest): Generator<string> {
  const { objects, entries, dirs, links, unstored, mixed_from: mixedFrom, ...head } = manifest
  yield `${JSON.stringify(head).slice(0, -1)},"objects":[`
  yield* joinedList(objects)
  yield '],"entries":{'
  yield* joinedRecord(objects, entries)
  yield '},"dirs":{'
  yield* joinedRecord(Object.keys(dirs), dirs)
  yield '},"links":{'
  yield* joinedRecord(Object.keys(links), links)
  yield '},"unstored":['
  yield* joinedList(unstored)
  yield mixedFrom === undefined ? ']}\n' : `],"mixed_from":${JSON.stringify(mixedFrom)}}\n`
}

/** The manifest as it is stored, whole. */
export function serializeManifest(manifest: Manifest): string {
  return [...manifestPieces(manifest)].join('')
}

function* joinedList(values: readonly string[]): Generator<string> {
  for (let at = 0; at < values.length; at += SLICE) {
    const text = JSON.stringify(values.slice(at, at + SLICE)).slice(1, -1)
    yield at === 0 ? text : `,${text}`
  }
}

function* joinedRecord(names: readonly string[], record: Readonly<Record<string, unknown>>): Generator<string> {
  for (let at = 0; at < names.length; at += SLICE) {
    const fields = names.slice(at, at + SLICE).map((name) => `${JSON.stringify(name)}:${JSON.stringify(record[name])}`)
    yield at === 0 ? fields.join(',') : `,${fields.join(',')}`
  }
}
