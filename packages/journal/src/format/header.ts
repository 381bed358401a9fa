import { fromSystemError, isNexusError, NexusError } from '@nexus/errors'
import { HEADER_FILE, SCHEMA_VERSION, TEMP_PREFIX } from './format.ts'
import { nodeFs, readSmallFile, replaceFileSync, type JournalFs } from '../files/journal-fs.ts'

/** When the writer makes events durable; see {@link JournalWriter.open}. */
export type FsyncMode = 'turn-boundary' | 'every-event' | 'none'

const FSYNC_MODES: readonly string[] = ['turn-boundary', 'every-event', 'none'] satisfies FsyncMode[]

/** `header.json` of a journal directory. */
export interface JournalHeader {
  schema_version: number
  /** RFC 3339. */
  created_at: string
  fsync_mode: FsyncMode
  session_id: string
}

const MAX_HEADER_BYTES = 64 * 1024

/** Throws `INVALID_ARGUMENT` for anything but a known mode. */
export function validateFsyncMode(value: unknown): FsyncMode {
  if (typeof value === 'string' && FSYNC_MODES.includes(value)) return value as FsyncMode
  throw new NexusError(
    'INVALID_ARGUMENT',
    `unknown fsync mode ${JSON.stringify(value)}: use one of ${FSYNC_MODES.join(', ')}`,
    { op: 'journal.open', key: 'fsync' },
  )
}

/**
 * The header of the journal in `dir`, or undefined when there is none.
 *
 * @throws `UNSUPPORTED` for another schema version (both are named), `CORRUPT` when it is not a header
 */
export function readHeader(dir: string, fs: JournalFs = nodeFs): JournalHeader | undefined {
  const path = `${dir}/${HEADER_FILE}`
  try {
    const bytes = readSmallFile(fs, path, MAX_HEADER_BYTES)
    return bytes && parseHeader(bytes, path)
  } catch (error) {
    throw isNexusError(error) ? error : fromSystemError(error, 'journal.open', path)
  }
}

function parseHeader(bytes: Buffer, path: string): JournalHeader {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch (cause) {
    throw corrupt(path, 'it is not JSON', cause)
  }
  if (typeof value !== 'object' || value === null) throw corrupt(path, 'it is not an object')
  const header = value as Partial<JournalHeader>
  if (header.schema_version !== SCHEMA_VERSION) {
    throw new NexusError(
      'UNSUPPORTED',
      `${path} has schema version ${JSON.stringify(header.schema_version)}; this build reads version ${SCHEMA_VERSION}`,
      { op: 'journal.open', key: path },
    )
  }
  if (typeof header.session_id !== 'string' || typeof header.created_at !== 'string') {
    throw corrupt(path, 'session_id or created_at is missing')
  }
  return header as JournalHeader
}

function corrupt(path: string, reason: string, cause?: unknown): NexusError {
  return new NexusError('CORRUPT', `${path} is not a journal header: ${reason}. Restore it, or remove the journal`, {
    op: 'journal.open',
    key: path,
    cause,
  })
}

/** Writes the header durably, in one step. */
export function writeHeader(dir: string, header: JournalHeader, fs: JournalFs = nodeFs): void {
  const bytes = Buffer.from(`${JSON.stringify(header, undefined, 2)}\n`)
  replaceFileSync(fs, dir, HEADER_FILE, `${TEMP_PREFIX}header`, bytes)
}
