import { InvalidKeyError, validateKey } from '@nexus/objectstore'

const MAX_NAME_CHARACTERS = 1024
// Controls, and code points that the service refuses in any name.
const REFUSED = /[\p{Cc}\ue000\ufffe\uffff]/u
// A dot at the end of a segment is dropped on the way by URL rules that the service applies.
const DOT_AT_END = /\.(?:\/|$)/

/**
 * Refuses keys that break the rules of the seam, and those that the vendor has no name for, or another one.
 *
 * @param name what the key is called in the container
 * @throws InvalidKeyError
 * @see https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
 */
export function validateAzureKey(key: string, name: (key: string) => string): void {
  validateKey(key)
  if (REFUSED.test(key)) throw new InvalidKeyError(key, 'has a control character, which Blob Storage allows in no name')
  if (DOT_AT_END.test(key)) throw new InvalidKeyError(key, 'has a segment that ends in ".", which Blob Storage drops')
  const { length } = name(key)
  if (length > MAX_NAME_CHARACTERS) {
    throw new InvalidKeyError(
      key,
      `makes a name of ${length} characters, and Blob Storage allows ${MAX_NAME_CHARACTERS}`,
    )
  }
}
