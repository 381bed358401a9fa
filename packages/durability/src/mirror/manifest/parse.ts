import { NexusError } from '@nexus/errors'
import { runSteps, jsonPieces, type JsonPiece } from '@nexus/host'
import { keyFault } from '@nexus/objectstore'
import { type MixedFrom, pathRecord } from '../../tree/committed.ts'
import { sessionKeys } from '../../tree/keys.ts'
import {
  MANIFEST_SCHEMA_VERSION,
  type Manifest,
  type ManifestDir,
  type ManifestEntry,
  type ManifestLink,
} from './manifest.ts'
import { MOVED_SCHEMA_VERSION, movedError } from './moved.ts'

const PERMISSION_BITS = 0o777
const SHA256 = /^[0-9a-f]{64}$/
const NANOSECONDS = /^-?[0-9]{1,20}$/

/** Thrown inside the parser with what is wrong; turned into one `CORRUPT` error that names the key. */
class Fault extends Error {}

type Fields = Readonly<Record<string, unknown>>

/**
 * Reads a manifest as it came from the store, trusting none of it: every path must stay inside the session, no path may
 * be two things at once or lie below a file or a link, and every object of version 2 has its entry. Fields this build
 * doesn't know are ignored.
 *
 * @throws `UNSUPPORTED` for an unknown schema version, with both versions; `CORRUPT` for anything else; both carry the
 *   manifest's key
 * @see docs/formats/object-store.md
 */
export function parseManifest(bytes: Uint8Array | string, sessionId: string): Manifest {
  return runSteps(manifestSteps(typeof bytes === 'string' ? Buffer.from(bytes) : bytes, sessionId))
}

/** {@link parseManifest} in steps of some tenths of a millisecond, for a manifest of any number of objects. */
export function* manifestSteps(bytes: Uint8Array, sessionId: string): Generator<void, Manifest> {
  const key = sessionKeys(sessionId).manifest
  try {
    const fields = yield* readFields(bytes)
    const version = fields.values.get('_schema_version')
    if (version === undefined) throw new Fault('has no schema version')
    if (version === MOVED_SCHEMA_VERSION && fields.values.get('moved') === 'versioned') throw movedError(key)
    if (version !== 1 && version !== MANIFEST_SCHEMA_VERSION) throw unknownVersion(version, key)
    const manifest = version === 1 ? readV1(fields) : readV2(fields)
    if (manifest.session_id !== sessionId) throw new Fault(`belongs to session ${quote(manifest.session_id)}`)
    yield* refuseConflicts(manifest)
    return manifest
  } catch (error) {
    throw named(error, key)
  }
}

/** The demands of {@link manifestSteps} on which paths a manifest names together. Throws `CORRUPT` as that does. */
export function* conflictSteps(manifest: Manifest): Generator<void> {
  try {
    yield* refuseConflicts(manifest)
  } catch (error) {
    throw named(error, sessionKeys(manifest.session_id).manifest)
  }
}

function named(error: unknown, key: string): unknown {
  if (!(error instanceof Fault)) return error
  return new NexusError('CORRUPT', `manifest ${key} is damaged: it ${error.message}`, { op: 'manifest.parse', key })
}

function unknownVersion(version: unknown, key: string): NexusError {
  return new NexusError(
    'UNSUPPORTED',
    `manifest ${key} has schema version ${quote(version)}, and this build reads 1 to ${MANIFEST_SCHEMA_VERSION}: ` +
      'open the session with the build that wrote it, or a later one',
    { op: 'manifest.parse', key },
  )
}

/** What the text of a manifest holds, its lists and records read already. */
interface RawManifest {
  values: Map<string, unknown>
  objects: string[] | undefined
  unstored: string[] | undefined
  entries: PathTable<ManifestEntry> | undefined
  dirs: PathTable<ManifestDir> | undefined
  links: PathTable<ManifestLink> | undefined
}

interface PathTable<T> {
  byPath: Record<string, T>
  count: number
}

function* readFields(bytes: Uint8Array): Generator<void, RawManifest> {
  const raw: RawManifest = {
    values: new Map(),
    objects: undefined,
    unstored: undefined,
    entries: undefined,
    dirs: undefined,
    links: undefined,
  }
  const pieces = jsonPieces(bytes)
  for (;;) {
    const next = nextPiece(pieces)
    if (next === undefined) return raw
    takePiece(raw, next)
    yield
  }
}

function nextPiece(pieces: Generator<JsonPiece, void>): JsonPiece | undefined {
  try {
    const next = pieces.next()
    return next.done === true ? undefined : next.value
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    throw new Fault(`is not JSON (${detail.slice(0, 200)})`)
  }
}

/** Records that are no tables by path. */
const SMALL_RECORDS: ReadonlySet<string> = new Set(['journal', 'mixed_from'])

function takePiece(raw: RawManifest, { name, kind, value }: JsonPiece): void {
  if (name === 'objects' && kind === 'items') raw.objects = addPaths(raw.objects ?? [], value, name)
  else if (name === 'unstored' && kind === 'items') raw.unstored = addStrings(raw.unstored ?? [], value, name)
  else if (name === 'entries' && kind === 'fields') raw.entries = addRecord(raw.entries, value, name, readEntry)
  else if (name === 'dirs' && kind === 'fields') raw.dirs = addRecord(raw.dirs, value, name, readDir)
  else if (name === 'links' && kind === 'fields') raw.links = addRecord(raw.links, value, name, readLink)
  else if (kind === 'value') raw.values.set(name, value)
  else if (kind === 'fields' && SMALL_RECORDS.has(name)) {
    raw.values.set(name, { ...(raw.values.get(name) as Fields | undefined), ...value })
  }
}

function readV1({ values, objects }: RawManifest): Manifest {
  return {
    _schema_version: 1,
    session_id: readString(values, 'session_id'),
    generation: readGeneration(values.get('generation')),
    nonce: '',
    instance_id: '',
    completed_at: optionalString(values.get('completed_at')),
    key_prefix: optionalString(values.get('key_prefix')),
    objects: inOrder(objects),
    entries: pathRecord(),
    dirs: pathRecord(),
    links: pathRecord(),
    journal: { last_seq: 0 },
    unstored: [],
  }
}

function readV2(raw: RawManifest): Manifest {
  const { values, entries, dirs, links, unstored } = raw
  const objects = inOrder(raw.objects)
  if (entries === undefined) throw new Fault('has no object at entries')
  if (dirs === undefined) throw new Fault('has no object at dirs')
  if (links === undefined) throw new Fault('has no object at links')
  if (unstored === undefined) throw new Fault('has no list unstored')
  if (entries.count > objects.length) throw new Fault('has an entry for a path it does not list')
  const mixedFrom = values.get('mixed_from')
  return {
    _schema_version: MANIFEST_SCHEMA_VERSION,
    session_id: readString(values, 'session_id'),
    generation: readGeneration(values.get('generation')),
    nonce: readString(values, 'nonce'),
    instance_id: readString(values, 'instance_id'),
    completed_at: readString(values, 'completed_at'),
    key_prefix: readString(values, 'key_prefix'),
    objects,
    entries: entries.byPath,
    dirs: dirs.byPath,
    links: links.byPath,
    journal: { last_seq: readCount(asFields(values.get('journal'), 'journal'), 'last_seq') },
    unstored,
    ...(mixedFrom === undefined ? {} : { mixed_from: readMixedFrom(mixedFrom) }),
  }
}

// One less than what a number can count to: the next commit must have a greater one.
function readGeneration(value: unknown): number {
  const generation = readCount({ generation: value }, 'generation')
  if (generation >= Number.MAX_SAFE_INTEGER) throw new Fault('has a generation that nothing can follow')
  return generation
}

// Writers sort, and sorting many by ourselves would hold the event loop.
const SORTABLE = 20_000

function inOrder(objects: string[] | undefined): string[] {
  if (objects === undefined) throw new Fault('has no list objects')
  let isSorted = true
  for (let at = 1; at < objects.length && isSorted; at++) isSorted = (objects[at - 1] ?? '') <= (objects[at] ?? '')
  if (!isSorted && objects.length > SORTABLE) throw new Fault('does not list its objects in order')
  return isSorted ? objects : objects.toSorted(byCodeUnit)
}

function readEntry(fields: Fields, where: string): ManifestEntry {
  const { mtime_ns: mtimeNs, sha256 } = fields
  if (typeof mtimeNs !== 'string' || !NANOSECONDS.test(mtimeNs)) throw new Fault(`has a bad mtime_ns in ${where}`)
  if (typeof sha256 !== 'string' || !SHA256.test(sha256)) throw new Fault(`has a bad sha256 in ${where}`)
  return { size: readCount(fields, 'size', where), mode: readMode(fields, where), mtime_ns: mtimeNs, sha256 }
}

function readDir(fields: Fields, where: string): ManifestDir {
  return { mode: readMode(fields, where) }
}

function readLink(fields: Fields, where: string): ManifestLink {
  const { target } = fields
  if (typeof target !== 'string' || target === '' || target.includes('\0'))
    throw new Fault(`has a bad target in ${where}`)
  return { target }
}

function readMixedFrom(value: unknown): MixedFrom {
  const fields = asFields(value, 'mixed_from')
  return { generation: readCount(fields, 'generation'), paths: readStrings(fields['paths'], 'mixed_from.paths') }
}

function readStrings(value: unknown, name: string): string[] {
  if (!Array.isArray(value)) throw new Fault(`has no list ${name}`)
  return addStrings([], value, name)
}

// Setuid, setgid and sticky are dropped here too: a right to write to the bucket must not put them onto a disk.
function readMode(fields: Fields, where: string): number {
  return readCount(fields, 'mode', where) & PERMISSION_BITS
}

function addRecord<T>(
  table: PathTable<T> | undefined,
  fields: Fields,
  name: string,
  read: (value: Fields, where: string) => T,
): PathTable<T> {
  const { byPath, count } = table ?? { byPath: pathRecord<T>(), count: 0 }
  let added = 0
  for (const [path, value] of Object.entries(fields)) {
    refusePath(path, name)
    const where = `${name} of ${quote(path)}`
    byPath[path] = read(asFields(value, where), where)
    added++
  }
  return { byPath, count: count + added }
}

function addPaths(paths: string[], items: readonly unknown[], name: string): string[] {
  const before = paths.length
  addStrings(paths, items, name)
  for (let at = before; at < paths.length; at++) refusePath(paths[at] ?? '', name)
  return paths
}

function addStrings(strings: string[], items: readonly unknown[], name: string): string[] {
  for (const item of items) {
    if (typeof item !== 'string') throw new Fault(`has a ${typeof item} at ${name}[${strings.length}]`)
    strings.push(item)
  }
  return strings
}

function optionalString(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function readString(values: ReadonlyMap<string, unknown>, name: string): string {
  const value = values.get(name)
  if (typeof value !== 'string') throw new Fault(`has no string ${name}`)
  return value
}

function readCount(fields: Fields, name: string, where = 'it'): number {
  const value = fields[name]
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw new Fault(`has a bad ${name} in ${where}`)
  }
  return value
}

function asFields(value: unknown, where: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Fault(`has no object at ${where}`)
  return value as Fields
}

function refusePath(path: string, where: string): void {
  const fault = keyFault(path)
  if (fault !== undefined) throw new Fault(`names ${quote(path)} in ${where}, which ${fault}`)
}

const STEP = 1_000

/**
 * One path can be one thing, and only directories have something below them: nothing may be written through a link. Every
 * object has its entry, and none is listed twice.
 */
function* refuseConflicts({ _schema_version: version, objects, entries, dirs, links }: Manifest): Generator<void> {
  const leaves = new Set<string>()
  for (const [at, path] of objects.entries()) {
    if (leaves.has(path)) throw new Fault(`lists ${quote(path)} twice`)
    if (version !== 1 && entries[path] === undefined) throw new Fault(`has no entry for ${quote(path)}`)
    leaves.add(path)
    if (at % STEP === STEP - 1) yield
  }
  for (const path of Object.keys(links)) {
    if (leaves.has(path)) throw new Fault(`names ${quote(path)} as a file and as a link`)
    leaves.add(path)
  }
  const directories = new Set<string>()
  const refuseLeafAbove = (path: string): void => {
    for (let at = path.lastIndexOf('/'); at !== -1; at = path.lastIndexOf('/', at - 1)) {
      const parent = path.slice(0, at)
      if (directories.has(parent)) return
      if (leaves.has(parent)) throw new Fault(`names both ${quote(parent)} and ${quote(path)}, which can't both exist`)
      directories.add(parent)
    }
  }
  let seen = 0
  for (const path of leaves) {
    refuseLeafAbove(path)
    if (++seen % STEP === 0) yield
  }
  for (const path of Object.keys(dirs)) {
    if (leaves.has(path)) throw new Fault(`names ${quote(path)} as a directory and as something else`)
    refuseLeafAbove(path)
    if (++seen % STEP === 0) yield
  }
}

function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value)
  return text.length <= 300 ? text : `${text.slice(0, 300)}..."`
}
