import { isNexusError, NexusError } from '@nexus/errors'
import { ARCHIVE_DIR, ACTIVE_SEGMENT, SEALED_SEGMENT_PATTERN, TEMP_PREFIX } from './format.ts'
import { nodeFs, readSmallFile, replaceFileSync, type JournalFs } from '../files/journal-fs.ts'

/** A change of the whole journal that was decided and may not be finished. */
export interface RewindIntent {
  schema_version: 1
  /** Archive that sealed segments come from when the journal has them no longer. */
  archive: string
  /** Names of the sealed segments that make up the journal from now on. */
  sealed: string[]
}

/** Exists from the decision until everything is in place. */
export const INTENT_FILE = 'rewind.json'
/** What the active segment will be; renamed into place. */
export const STAGED_ACTIVE = 'rewind-events.jsonl'

const MAX_INTENT_BYTES = 4 * 1024 * 1024
const ARCHIVE_NAME = /^\d{8}T\d{9}Z(?:-\d+)?$/

/** Whether `name` can be that of an archive; anything else never reaches a path. */
export function isArchiveName(name: unknown): name is string {
  return typeof name === 'string' && ARCHIVE_NAME.test(name)
}

/** The unfinished rewind of the journal in `dir`, if any. Throws `CORRUPT` for a file that is no intent. */
export function readIntent(dir: string, fs: JournalFs = nodeFs): RewindIntent | undefined {
  const path = `${dir}/${INTENT_FILE}`
  const bytes = readSmallFile(fs, path, MAX_INTENT_BYTES)
  if (!bytes) return undefined
  try {
    const intent = JSON.parse(bytes.toString('utf8')) as RewindIntent
    const sealed: unknown[] = intent.sealed
    const valid = sealed.every((name) => typeof name === 'string' && SEALED_SEGMENT_PATTERN.test(name))
    if (intent.schema_version === 1 && isArchiveName(intent.archive) && valid) return intent
    throw corrupt(path)
  } catch (error) {
    throw isNexusError(error) ? error : corrupt(path, error)
  }
}

function corrupt(path: string, cause?: unknown): NexusError {
  return new NexusError('CORRUPT', `${path} does not describe a rewind; the journal is whole in the newest archive`, {
    op: 'journal.open',
    key: path,
    cause,
  })
}

/** Decides: from here on the journal is the new one, whatever happens. */
export function writeIntent(dir: string, intent: RewindIntent, fs: JournalFs): void {
  replaceFileSync(fs, dir, INTENT_FILE, `${TEMP_PREFIX}intent`, Buffer.from(JSON.stringify(intent)))
}

/** Where the sealed segment of an intent is at present: moved already, or still in the archive. */
export function intendedSealedPath(dir: string, name: string, intent: RewindIntent, names: readonly string[]): string {
  return names.includes(name) ? `${dir}/${name}` : `${dir}/${ARCHIVE_DIR}/${intent.archive}/${name}`
}

/** Where the active segment of an intent is at present. */
export function intendedActivePath(dir: string, names: readonly string[]): string {
  return `${dir}/${names.includes(STAGED_ACTIVE) ? STAGED_ACTIVE : ACTIVE_SEGMENT}`
}
