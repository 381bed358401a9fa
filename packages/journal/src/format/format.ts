import { NexusError } from '@nexus/errors'

/** Version of the on-disk format that this package writes. A journal with another version is refused. */
export const SCHEMA_VERSION = 1

/** Metadata of a journal, written once. */
export const HEADER_FILE = 'header.json'

/** The segment that is appended to. */
export const ACTIVE_SEGMENT = 'events.jsonl'

/** Matches the name of a sealed segment; group 1 is its number. */
export const SEALED_SEGMENT_PATTERN: RegExp = /^events-(\d{3,15})\.jsonl\.zst$/

const MAX_SEGMENT_NUMBER = 999_999_999_999_999

/** Directory of tool results, below the journal directory. */
export const CACHE_DIR = 'cache'

/** Directory of set-aside journals, below the journal directory. */
export const ARCHIVE_DIR = 'archive'

/** Files with this prefix are unfinished work of a writer. The next open of the directory removes them. */
export const TEMP_PREFIX = '.nexus-tmp-journal-'

/**
 * Longest line, newline included, in bytes. The writer replaces the payload of a longer record by a `__journal_error`;
 * the reader reports a longer line as damage and skips it, so it never holds more than this.
 */
export const MAX_LINE_BYTES: number = 32 * 1024 * 1024

/** A segment that one endless turn makes this large is sealed before the turn ends, in bytes: no `rotate_size_mb` is above it. */
export const FORCED_ROTATION_BYTES: number = 64 * 1024 * 1024

/**
 * Most bytes one sealed segment may expand to. The writer never seals more in one segment, and twice what forces a rotation
 * leaves room for what arrives while a snapshot keeps rotations away. The reader stops there, which bounds the memory and,
 * at 50 MiB a second, the three seconds that a hostile or corrupt file can cost.
 */
export const MAX_SEGMENT_BYTES: number = 128 * 1024 * 1024

/** The name of sealed segment `number`, at least three digits: `events-007.jsonl.zst`. */
export function segmentName(number: number): string {
  // A longer number would not match the pattern, and readers would pass the segment over.
  if (!Number.isSafeInteger(number) || number < 1 || number > MAX_SEGMENT_NUMBER) {
    throw new NexusError('INVALID_ARGUMENT', `segment number ${number} is not from 1 to ${MAX_SEGMENT_NUMBER}`, {
      op: 'journal.segmentName',
    })
  }
  return `events-${String(number).padStart(3, '0')}.jsonl.zst`
}

/** The number of a sealed segment, or undefined when the name is not one. */
export function segmentNumber(name: string): number | undefined {
  const match = SEALED_SEGMENT_PATTERN.exec(name)
  return match ? Number(match[1]) : undefined
}
