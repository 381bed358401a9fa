import { isNexusError, NexusError } from '@nexus/errors'
import { TEMP_PREFIX, SEALED_SEGMENT_PATTERN } from './format.ts'
import { nodeFs, readSmallFile, replaceFileSync, type JournalFs } from '../files/journal-fs.ts'

/** A sealed segment that was removed from this copy of the journal because a commit holds it. */
export interface SweptSegment {
  name: string
  /** Seq of its last event. */
  last_seq: number
  size_bytes: number
  /** Of the file, 64 lowercase hex digits. */
  sha256: string
}

/** Which segments were swept, so that their absence is no damage. */
export const SWEPT_FILE = 'swept.json'

const MAX_SWEPT_BYTES = 64 * 1024 * 1024

/**
 * The segments that were swept from the journal in `dir`, ascending; one that came back with a download is still named.
 * Empty when there are none, and for a list that can't be read: what is missing is then damage, which bricks nothing.
 */
export function readSwept(dir: string, fs: JournalFs = nodeFs): SweptSegment[] {
  try {
    return loadSwept(dir, fs)
  } catch (error) {
    if (isNexusError(error, 'CORRUPT')) return []
    throw error
  }
}

/** {@link readSwept} for who adds to the list. Throws `CORRUPT` for a file that is no such list. */
export function loadSwept(dir: string, fs: JournalFs): SweptSegment[] {
  const path = `${dir}/${SWEPT_FILE}`
  const bytes = readSmallFile(fs, path, MAX_SWEPT_BYTES)
  if (!bytes) return []
  try {
    const { schema_version: version, segments } = JSON.parse(bytes.toString('utf8')) as {
      schema_version: number
      segments: SweptSegment[]
    }
    if (version === 1 && segments.every(isSwept)) return segments
    throw corrupt(path)
  } catch (error) {
    throw isNexusError(error) ? error : corrupt(path, error)
  }
}

function isSwept({ name, last_seq: lastSeq, size_bytes: size, sha256 }: SweptSegment): boolean {
  const numbers = Number.isSafeInteger(lastSeq) && Number.isSafeInteger(size)
  return numbers && SEALED_SEGMENT_PATTERN.test(name) && /^[0-9a-f]{64}$/.test(sha256)
}

function corrupt(path: string, cause?: unknown): NexusError {
  const message = `${path} does not list swept segments. Remove it: the missing events are then reported as a gap`
  return new NexusError('CORRUPT', message, { op: 'journal.open', key: path, cause })
}

/** Writes the list durably, in one step. */
export function writeSwept(dir: string, segments: readonly SweptSegment[], fs: JournalFs): void {
  const bytes = Buffer.from(JSON.stringify({ schema_version: 1, segments }))
  replaceFileSync(fs, dir, SWEPT_FILE, `${TEMP_PREFIX}swept`, bytes)
}
