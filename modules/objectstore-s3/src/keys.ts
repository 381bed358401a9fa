import { InvalidKeyError, joinKey } from '@nexus/objectstore'

/** The longest key of the protocol, in bytes of UTF-8. */
const MAX_BYTES = 1024

/**
 * The object's key in the bucket.
 *
 * @throws InvalidKeyError when it is longer than any store takes
 */
export function fullKeyOf(prefix: string, key: string): string {
  const fullKey = joinKey(prefix, key)
  // Most keys need no counting: a UTF-16 unit is three bytes at most.
  if (fullKey.length * 3 > MAX_BYTES && Buffer.byteLength(fullKey) > MAX_BYTES) {
    throw new InvalidKeyError(key, `has more than ${MAX_BYTES} bytes with its prefix, which S3 does not take`)
  }
  return fullKey
}
