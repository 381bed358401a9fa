import { NexusError } from '@nexus/errors'
import { keyFault } from '@nexus/objectstore'
import type { Codec } from './bytes/chunk.ts'
import { DamagedObjectError, type ObjectRange, quote } from './bytes/damage.ts'
import {
  COMMIT_KINDS,
  type CommitHeader,
  type CommitKind,
  type CommitLink,
  type CommitOwner,
  type IndexRoot,
  type TreeTotals,
} from './header.ts'
import type { PageRef } from './inner-page.ts'
import { FORMAT_VERSION, MAX_ENTRIES, MAX_LISTED, MAX_NAME_BYTES, MAX_PACKS, MAX_PAGE_BYTES } from './bytes/limits.ts'
import { packFault, type PackEntry } from './pack-table-page.ts'

type Fields = Readonly<Record<string, unknown>>

/** Thrown inside the parser with what is wrong; turned into one error that names the object. */
class Fault extends Error {}

const SHA256 = /^[0-9a-f]{64}$/
const INSTANT = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z$/
const HALF_PAIR = /\p{Surrogate}/u
const MAX_UNSTORED = 100_000

/**
 * Reads a header as it came from the store, trusting none of it. Fields that this build doesn't know are ignored.
 *
 * @param of whose commit it should be
 * @throws `UNSUPPORTED` for another format, naming both; {@link DamagedObjectError} for anything else
 */
export function parseHeader(
  json: Buffer,
  range: ObjectRange,
  of: { sessionId: string; generation: number },
): CommitHeader {
  try {
    const fields = asFields(parseJson(json), 'header')
    if (fields['format'] !== FORMAT_VERSION) throw otherFormat(fields['format'], range.object)
    const header = readHeader(fields)
    if (header.session_id !== of.sessionId) throw new Fault(`it belongs to ${quote(header.session_id)}`)
    if (header.generation !== of.generation) throw new Fault(`it is generation ${header.generation}`)
    return header
  } catch (error) {
    throw error instanceof Fault ? new DamagedObjectError(range, `the header: ${error.message}`) : error
  }
}

function otherFormat(format: unknown, object: string): NexusError {
  const message =
    `object ${object} has format ${quote(format)}, and this build reads ${FORMAT_VERSION}: ` +
    'open the session with the build that wrote it, or a later one'
  return new NexusError('UNSUPPORTED', message, { op: 'versioned.read', key: object })
}

function parseJson(json: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(json))
  } catch (error) {
    throw new Fault(`it is not JSON in UTF-8 (${error instanceof Error ? error.message.slice(0, 100) : ''})`)
  }
}

function readHeader(fields: Fields): CommitHeader {
  const generation = count(fields, 'generation')
  // One less than what can be counted to, since another must be able to follow.
  if (generation < 1 || generation >= Number.MAX_SAFE_INTEGER) throw new Fault(`it has generation ${generation}`)
  const header: CommitHeader = {
    format: FORMAT_VERSION,
    session_id: name(fields, 'session_id'),
    generation,
    nonce: name(fields, 'nonce'),
    kind: kind(fields['kind']),
    completed_at: instant(fields, 'completed_at'),
    journal: { last_seq: count(asFields(fields['journal'], 'journal'), 'last_seq') },
    epoch: count(fields, 'epoch'),
    owner: owner(asFields(fields['owner'], 'owner')),
    n: count(fields, 'n'),
    next_n: count(fields, 'next_n'),
    packs: list(fields, 'packs', MAX_LISTED).map((each) => pack(asFields(each, 'packs'))),
    pack_pages: list(fields, 'pack_pages', MAX_LISTED).map((each) => page(asFields(each, 'pack_pages'))),
    index: index(asFields(fields['index'], 'index')),
    totals: totals(asFields(fields['totals'], 'totals')),
    unstored: list(fields, 'unstored', MAX_UNSTORED).map((each) => text(each, 'unstored')),
    ...(fields['turn_id'] === undefined ? {} : { turn_id: text(fields['turn_id'], 'turn_id') }),
    ...(fields['parent'] === undefined ? {} : { parent: link(asFields(fields['parent'], 'parent')) }),
    ...(fields['forked_from'] === undefined
      ? {}
      : { forked_from: fork(asFields(fields['forked_from'], 'forked_from')) }),
    ...(fields['mixed_from'] === undefined ? {} : { mixed_from: mixed(asFields(fields['mixed_from'], 'mixed_from')) }),
    ...(fields['expires_at'] === undefined ? {} : { expires_at: instant(fields, 'expires_at') }),
  }
  refuseContradictions(header)
  return header
}

function refuseContradictions({
  generation,
  parent,
  n,
  next_n: nextN,
  packs,
  pack_pages: packPages,
  index: root,
}: CommitHeader): void {
  if ((parent?.generation ?? 0) !== generation - 1) throw new Fault('its parent is not the generation before')
  if (n >= nextN) throw new Fault(`its number is ${n}, and the next would be ${nextN}`)
  for (const [at, { n: number }] of packs.entries()) {
    if (number >= nextN || number === n || number <= (packs[at - 1]?.n ?? -1)) {
      throw new Fault(`it lists pack ${number} out of order`)
    }
  }
  if (sum(packPages) > MAX_PACKS) throw new Fault(`it lists ${sum(packPages)} packs`)
  if (sum(root.pages) > MAX_ENTRIES)
    throw new Fault(`its index has ${sum(root.pages)} entries, and ${MAX_ENTRIES} is the most`)
  for (const [at, { from }] of root.pages.entries()) {
    const before = root.pages[at - 1]?.from
    if (before === undefined ? from !== '' : from <= before)
      throw new Fault(`the page from ${quote(from)} is out of order`)
  }
}

function sum(pages: readonly PageRef[]): number {
  return pages.reduce((all, { entries }) => all + entries, 0)
}

function kind(value: unknown): CommitKind {
  if (!COMMIT_KINDS.includes(value as CommitKind)) throw new Fault(`it is of kind ${quote(value)}`)
  return value as CommitKind
}

function owner(fields: Fields): CommitOwner {
  return {
    instance_id: name(fields, 'instance_id'),
    machine_id: name(fields, 'machine_id'),
    ...(fields['host'] === undefined ? {} : { host: name(fields, 'host') }),
    ...(fields['pid'] === undefined ? {} : { pid: count(fields, 'pid') }),
  }
}

function link(fields: Fields): CommitLink {
  return {
    generation: count(fields, 'generation'),
    nonce: name(fields, 'nonce'),
    header_sha256: sha256(fields, 'header_sha256'),
  }
}

function fork(fields: Fields): CommitLink & { session_id: string } {
  return { ...link(fields), session_id: name(fields, 'session_id') }
}

function mixed(fields: Fields): { generation: number; paths: string[] } {
  const paths = list(fields, 'paths', MAX_UNSTORED).map((each) => text(each, 'paths'))
  return { generation: count(fields, 'generation'), paths }
}

function pack(fields: Fields): PackEntry {
  const entry = {
    n: count(fields, 'n'),
    name: name(fields, 'name'),
    size: count(fields, 'size'),
    base: count(fields, 'base'),
    live: count(fields, 'live'),
  }
  const fault = packFault(entry)
  if (fault !== undefined) throw new Fault(`the pack ${entry.n} ${fault}`)
  return entry
}

function index(fields: Fields): IndexRoot {
  const { depth } = fields
  if (depth !== 1 && depth !== 2) throw new Fault(`its index is ${quote(depth)} deep`)
  return { depth, pages: list(fields, 'pages', MAX_LISTED).map((each) => page(asFields(each, 'pages'))) }
}

function page(fields: Fields): PageRef {
  const ref: PageRef = {
    from: text(fields['from'], 'from'),
    entries: count(fields, 'entries'),
    digest: Buffer.from(sha256(fields, 'sha256'), 'hex'),
    n: count(fields, 'n'),
    offset: count(fields, 'offset'),
    length: count(fields, 'length'),
    codec: codec(fields['codec']),
  }
  if (ref.entries === 0 || ref.length === 0 || ref.length > MAX_PAGE_BYTES) {
    throw new Fault(`the page from ${quote(ref.from)} has ${ref.entries} entries in ${ref.length} bytes`)
  }
  return ref
}

function codec(value: unknown): Codec {
  if (value !== 'raw' && value !== 'zstd') throw new Fault(`it has the codec ${quote(value)}`)
  return value
}

function totals(fields: Fields): TreeTotals {
  return {
    files: count(fields, 'files'),
    dirs: count(fields, 'dirs'),
    links: count(fields, 'links'),
    bytes: count(fields, 'bytes'),
  }
}

function asFields(value: unknown, where: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Fault(`${where} is no object`)
  return value as Fields
}

function list(fields: Fields, field: string, most: number): unknown[] {
  const value = fields[field]
  if (!Array.isArray(value)) throw new Fault(`${field} is no list`)
  if (value.length > most) throw new Fault(`${field} has ${value.length} items, and ${most} is the most`)
  return value
}

function count(fields: Fields, field: string): number {
  const value = fields[field]
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw new Fault(`${field} is ${quote(value)}`)
  return value
}

function text(value: unknown, field: string): string {
  if (typeof value !== 'string' || HALF_PAIR.test(value)) throw new Fault(`${field} is ${quote(value)}`)
  return value
}

/** A short text, and one that may stand in a key. */
function name(fields: Fields, field: string): string {
  const value = text(fields[field], field)
  if (value.length > MAX_NAME_BYTES || keyFault(value) !== undefined) throw new Fault(`${field} is ${quote(value)}`)
  return value
}

function sha256(fields: Fields, field: string): string {
  const value = text(fields[field], field)
  if (!SHA256.test(value)) throw new Fault(`${field} is ${quote(value)}`)
  return value
}

function instant(fields: Fields, field: string): string {
  const value = text(fields[field], field)
  if (!INSTANT.test(value)) throw new Fault(`${field} is ${quote(value)}`)
  return value
}
