/** The manifest schema this build writes. It reads this one and 1. */
export const MANIFEST_SCHEMA_VERSION = 2

/** What the manifest knows of one stored object. */
export interface ManifestEntry {
  /** Bytes of the object. */
  size: number
  /** Permission bits, `0` to `0o777`; never setuid, setgid or sticky. */
  mode: number
  /** Nanoseconds since the Unix epoch as a decimal string: a JSON number would lose digits. */
  mtime_ns: string
  /** 64 lowercase hex digits, of the bytes that were stored. */
  sha256: string
}

/** A directory that is empty, or whose mode isn't 0700. */
export interface ManifestDir {
  mode: number
}

/** A symbolic link. */
export interface ManifestLink {
  /** Its text, verbatim: never resolved, and allowed to point nowhere or outside. */
  target: string
}

/** A mixture that a hydration found and this lineage carries on from. */
export interface MixedFrom {
  generation: number
  paths: string[]
}

/**
 * The committed set of a session: what the store holds as one generation, not what one turn uploaded. Field names are as
 * on the wire. The records keyed by path have no prototype, so that a file named `__proto__` is a file like any other.
 *
 * @see spec 60, Turn-boundary snapshot; spec 80, B1
 */
export interface Manifest {
  /** 2, or 1 for one written by an older build: then `entries`, `dirs`, `links` are empty and `nonce` is ''. */
  _schema_version: number
  session_id: string
  /** Grows across runs; gaps are normal. */
  generation: number
  /** Random per commit: tells our commit N from another host's commit N. '' in version 1. */
  nonce: string
  /** The engine instance that committed it. '' in version 1. */
  instance_id: string
  /** RFC 3339. */
  completed_at: string
  key_prefix: string
  /** Session-relative paths, sorted by code unit. */
  objects: string[]
  /** One entry per object. */
  entries: Record<string, ManifestEntry>
  dirs: Record<string, ManifestDir>
  links: Record<string, ManifestLink>
  journal: { last_seq: number }
  /** Paths that this generation could not store; see {@link SnapshotResult}. */
  unstored: string[]
  mixed_from?: MixedFrom
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

/** Bytes of all objects of a manifest of version 2. */
export function totalBytes({ objects, entries }: Manifest): number {
  return objects.reduce((sum, path) => sum + (entries[path]?.size ?? 0), 0)
}

/** An empty record keyed by path: without a prototype, since a path may be `__proto__` or `constructor`. */
export function pathRecord<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>
}
