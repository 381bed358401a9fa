import { InvalidKeyError, validateKey } from '@nexus/objectstore'

const MAX_NAME_BYTES = 1024
const RESERVED = '.well-known/acme-challenge/'

/**
 * Refuses keys that break the rules of the seam, and those the vendor has no name for: with a carriage return or a line feed,
 * of more than 1024 bytes with the store's prefix, or in the reserved place.
 *
 * @param name what the key is called in the bucket
 * @throws InvalidKeyError
 * @see https://cloud.google.com/storage/docs/objects#naming
 */
export function validateGcsKey(key: string, name: (key: string) => string): void {
  validateKey(key)
  if (/[\r\n]/.test(key)) throw new InvalidKeyError(key, 'has a line break, which Cloud Storage allows in no name')
  const full = name(key)
  const bytes = Buffer.byteLength(full)
  if (bytes > MAX_NAME_BYTES) {
    throw new InvalidKeyError(key, `makes a name of ${bytes} bytes, and Cloud Storage allows ${MAX_NAME_BYTES}`)
  }
  if (full.startsWith(RESERVED)) throw new InvalidKeyError(key, `begins with ${RESERVED}, which Cloud Storage reserves`)
}
