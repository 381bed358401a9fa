import { InvalidKeyError } from './errors.ts'

// One pass each for the common, valid case; the reason is worked out only once something is wrong.
const BAD_SEGMENT = /(?:^|\/)\.{0,2}(?:\/|$)/
const BAD_CHARACTER = /[\\\0]|\p{Surrogate}/u

/**
 * Checks one object key: `/`-separated, not empty, no empty, `.` or `..` segment (so no leading or trailing `/` either),
 * no backslash, no NUL, no lone surrogate. Anything else is allowed, control characters included; a store that can't
 * hold such a key makes its driver throw {@link InvalidKeyError} too.
 *
 * @throws InvalidKeyError naming the key and the rule
 * @see docs/guides/writing-a-backend.md
 */
export function validateKey(key: string): void {
  const reason = keyFault(key)
  if (reason !== undefined) throw new InvalidKeyError(key, reason)
}

/**
 * Checks a key prefix: empty (everything), or a key by the rules of {@link validateKey}.
 *
 * @throws InvalidKeyError naming the prefix and the rule
 */
export function validateKeyPrefix(prefix: string): void {
  if (prefix === '') return
  const reason = keyFault(prefix)
  if (reason !== undefined) throw new InvalidKeyError(prefix, reason, 'prefix')
}

/** Which rule a key breaks, as a clause such as `has an empty segment`, or undefined when it is valid. */
export function keyFault(key: string): string | undefined {
  if (typeof key !== 'string') return `is not a string but ${key === null ? 'null' : typeof key}`
  if (!BAD_SEGMENT.test(key) && !BAD_CHARACTER.test(key)) return undefined
  if (key === '') return 'is empty'
  if (key.includes('\\')) return 'contains a backslash'
  if (key.includes('\0')) return 'contains a NUL character'
  if (BAD_CHARACTER.test(key)) return 'contains a lone surrogate, which has no UTF-8 form'
  if (key.startsWith('/')) return 'begins with "/"'
  if (key.endsWith('/')) return 'ends with "/"'
  if (key.includes('//')) return 'has an empty segment'
  return 'has a "." or ".." segment'
}

/**
 * The part of `key` below `prefix`, or undefined when the key is not under it. Whole segments only: `sess-10/a` is not
 * under `sess-1`, and the object at the prefix itself is not under it.
 */
export function trimKeyPrefix(key: string, prefix: string): string | undefined {
  if (prefix === '') return key
  if (key.length <= prefix.length || !key.startsWith(prefix) || key[prefix.length] !== '/') return undefined
  return key.slice(prefix.length + 1)
}

/** The key of `key` below `prefix`; where one of them is empty it is the other. Neither is checked. */
export function joinKey(prefix: string, key: string): string {
  if (prefix === '' || key === '') return prefix + key
  return `${prefix}/${key}`
}

/**
 * What a raw store listing must be asked for to get everything under `keyPrefix` of a store that lives at `storePrefix` of its
 * bucket: with the separator, because stores match raw strings and would answer `sess-10/...` to `sess-1`.
 */
export function listingPrefix(storePrefix: string, keyPrefix = ''): string {
  const prefix = joinKey(storePrefix, keyPrefix)
  return prefix === '' ? '' : `${prefix}/`
}

/**
 * Whether a stored object is one of the zero-byte `folder/` placeholders that store consoles create. They are left out of
 * listings and hydration. The key may be store-relative already, where the placeholder of the prefix itself is empty.
 */
export function isFolderPlaceholder(key: string, size: number): boolean {
  return size === 0 && (key === '' || key.endsWith('/'))
}
