import { NexusError } from '@nexus/errors'
import { keyFault } from '@nexus/objectstore'
import { sessionKeys } from '../tree/keys.ts'
import {
  MANIFEST_SCHEMA_VERSION,
  pathRecord,
  type Manifest,
  type ManifestDir,
  type ManifestEntry,
  type ManifestLink,
  type MixedFrom,
} from './manifest.ts'

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
 * @see spec 60, Turn-boundary snapshot; spec 80, B1
 */
export function parseManifest(bytes: Uint8Array | string, sessionId: string): Manifest {
  const key = sessionKeys(sessionId).manifest
  try {
    const fields = parseJson(bytes)
    const version = fields['_schema_version']
    if (version === undefined) throw new Fault('has no schema version')
    if (version !== 1 && version !== MANIFEST_SCHEMA_VERSION) throw unknownVersion(version, key)
    const manifest = version === 1 ? readV1(fields) : readV2(fields)
    if (manifest.session_id !== sessionId) throw new Fault(`belongs to session ${quote(manifest.session_id)}`)
    refuseConflicts(manifest)
    return manifest
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    throw new NexusError('CORRUPT', `manifest ${key} is damaged: it ${error.message}`, { op: 'manifest.parse', key })
  }
}

function unknownVersion(version: unknown, key: string): NexusError {
  return new NexusError(
    'UNSUPPORTED',
    `manifest ${key} has schema version ${quote(version)}, and this build reads 1 to ${MANIFEST_SCHEMA_VERSION}: ` +
      'open the session with the build that wrote it, or a later one',
    { op: 'manifest.parse', key },
  )
}

function parseJson(bytes: Uint8Array | string): Fields {
  let value: unknown
  try {
    value = JSON.parse(typeof bytes === 'string' ? bytes : new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    throw new Fault(`is not JSON (${detail.slice(0, 200)})`)
  }
  return asFields(value, 'top level')
}

function readV1(fields: Fields): Manifest {
  const objects = readPaths(fields['objects'], 'objects')
  return {
    _schema_version: 1,
    session_id: readString(fields, 'session_id'),
    generation: readCount(fields, 'generation'),
    nonce: '',
    instance_id: '',
    completed_at: typeof fields['completed_at'] === 'string' ? fields['completed_at'] : '',
    key_prefix: typeof fields['key_prefix'] === 'string' ? fields['key_prefix'] : '',
    objects,
    entries: pathRecord(),
    dirs: pathRecord(),
    links: pathRecord(),
    journal: { last_seq: 0 },
    unstored: [],
  }
}

function readV2(fields: Fields): Manifest {
  const objects = readPaths(fields['objects'], 'objects')
  const entries = readRecord(fields, 'entries', readEntry)
  for (const path of objects) if (entries[path] === undefined) throw new Fault(`has no entry for ${quote(path)}`)
  if (Object.keys(entries).length !== objects.length) throw new Fault('has an entry for a path it does not list')
  const mixedFrom = fields['mixed_from']
  return {
    _schema_version: MANIFEST_SCHEMA_VERSION,
    session_id: readString(fields, 'session_id'),
    generation: readCount(fields, 'generation'),
    nonce: readString(fields, 'nonce'),
    instance_id: readString(fields, 'instance_id'),
    completed_at: readString(fields, 'completed_at'),
    key_prefix: readString(fields, 'key_prefix'),
    objects,
    entries,
    dirs: readRecord(fields, 'dirs', readDir),
    links: readRecord(fields, 'links', readLink),
    journal: { last_seq: readCount(asFields(fields['journal'], 'journal'), 'last_seq') },
    unstored: readStrings(fields['unstored'], 'unstored'),
    ...(mixedFrom === undefined ? {} : { mixed_from: readMixedFrom(mixedFrom) }),
  }
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

// Setuid, setgid and sticky are dropped here too: whoever can write to the bucket must not get them onto a disk.
function readMode(fields: Fields, where: string): number {
  return readCount(fields, 'mode', where) & PERMISSION_BITS
}

function readRecord<T>(fields: Fields, name: string, read: (value: Fields, where: string) => T): Record<string, T> {
  const out = pathRecord<T>()
  for (const [path, value] of Object.entries(asFields(fields[name], name))) {
    refusePath(path, name)
    const where = `${name} of ${quote(path)}`
    out[path] = read(asFields(value, where), where)
  }
  return out
}

function readPaths(value: unknown, name: string): string[] {
  const paths = readStrings(value, name)
  for (const path of paths) refusePath(path, name)
  const sorted = paths.toSorted(byCodeUnit)
  const twice = sorted.find((path, at) => path === sorted[at + 1])
  if (twice !== undefined) throw new Fault(`lists ${quote(twice)} twice`)
  return sorted
}

function readStrings(value: unknown, name: string): string[] {
  if (!Array.isArray(value)) throw new Fault(`has no list ${name}`)
  return value.map((item: unknown, at) => {
    if (typeof item !== 'string') throw new Fault(`has a ${typeof item} at ${name}[${at}]`)
    return item
  })
}

function readString(fields: Fields, name: string): string {
  const value = fields[name]
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

/** One path can be one thing, and only directories have something below them: nothing may be written through a link. */
function refuseConflicts({ objects, dirs, links }: Manifest): void {
  const leaves = new Set(objects)
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
  for (const path of leaves) refuseLeafAbove(path)
  for (const path of Object.keys(dirs)) {
    if (leaves.has(path)) throw new Fault(`names ${quote(path)} as a directory and as something else`)
    refuseLeafAbove(path)
  }
}

function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value)
  return text.length <= 300 ? text : `${text.slice(0, 300)}..."`
}
