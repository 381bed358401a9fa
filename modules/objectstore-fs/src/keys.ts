import { InvalidKeyError, joinKey } from '@nexus/objectstore'

/** Longest name of a file or directory, in bytes, on every file system that matters. */
const NAME_MAX_BYTES = 255
/** Longest path, in bytes, that a system call takes. */
const PATH_MAX_BYTES = 4095

// A key never contains a backslash, so names that begin with one can't be the name of an object or of its directories.

/** Below the bucket: where objects are written before they get their name. */
export const TEMP_DIRECTORY = '\\tmp'
/** In any directory: holds the objects whose plain path is taken by a directory of the same name, each under that name. */
export const ASIDE_DIRECTORY = '\\at-prefix'

/** Room for the longest of our own names and their separators. */
const RESERVE_BYTES = 64

/**
 * The names from the bucket down to the object or directory of a key.
 *
 * @param bucket absolute path of the bucket directory
 * @throws InvalidKeyError for a segment of more than 255 bytes, naming it, or a path the system would refuse
 */
export function keySegments(bucket: string, prefix: string, key: string): string[] {
  const whole = key === '' ? prefix : joinKey(prefix, key)
  if (whole === '') return []
  const segments = whole.split('/')
  let bytes = Buffer.byteLength(bucket) + RESERVE_BYTES
  for (const segment of segments) {
    // Three bytes are the most that a UTF-16 code unit takes.
    const length = segment.length * 3 <= NAME_MAX_BYTES ? segment.length * 3 : Buffer.byteLength(segment)
    if (length > NAME_MAX_BYTES) {
      throw new InvalidKeyError(key, `has a segment of ${length} bytes, and a file name holds ${NAME_MAX_BYTES}`)
    }
    bytes += length + 1
  }
  if (bytes <= PATH_MAX_BYTES) return segments
  const exact = Buffer.byteLength(bucket) + RESERVE_BYTES + Buffer.byteLength(whole) + 1
  if (exact > PATH_MAX_BYTES) {
    throw new InvalidKeyError(key, `makes a path of more than ${PATH_MAX_BYTES} bytes below ${bucket}`)
  }
  return segments
}
