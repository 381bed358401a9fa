import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidKeyError, isInvalidKeyError } from './errors.ts'
import {
  isFolderPlaceholder,
  joinKey,
  keyFault,
  listingPrefix,
  trimKeyPrefix,
  validateKey,
  validateKeyPrefix,
} from './keys.ts'

// The rules once more, as plainly as they can be said.
function obeysTheRules(key: string): boolean {
  const segments = key.split('/')
  return (
    segments.every((segment) => segment !== '' && segment !== '.' && segment !== '..') &&
    !key.includes('\\') &&
    !key.includes('\0') &&
    Buffer.from(key).toString() === key
  )
}

const awkward = fc.string({
  unit: fc.constantFrom('a', '.', '/', '\\', '\0', ' ', '\n', '\u00e9', '\ud83d', '\ude00', '%', '+'),
  maxLength: 8,
})
const validKey = awkward.filter(obeysTheRules)

describe('validateKey', () => {
  it.each([
    ['', 'is empty'],
    ['/a', 'begins with "/"'],
    ['a/', 'ends with "/"'],
    ['a//b', 'has an empty segment'],
    ['.', 'has a "." or ".." segment'],
    ['a/./b', 'has a "." or ".." segment'],
    ['a/../../x', 'has a "." or ".." segment'],
    ['C:\\x', 'contains a backslash'],
    ['a\0b', 'contains a NUL character'],
    ['a\ud83d', 'contains a lone surrogate, which has no UTF-8 form'],
    [undefined as unknown as string, 'is not a string but undefined'],
    [null as unknown as string, 'is not a string but null'],
    [7 as unknown as string, 'is not a string but number'],
  ])('refuses %j, saying that it %s', (key, reason) => {
    expect(() => validateKey(key)).toThrow(InvalidKeyError)
    expect(() => validateKey(key)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT', key, reason }))
  })

  it.each(['a', 'a..b', '..c', 'c..', '...', 'a/.b', ' ', 'a\nb', '\u{1f600}', 'C:x', '-', 'n'.repeat(3000)])(
    'accepts %j',
    (key) => {
      expect(keyFault(key)).toBeUndefined()
      validateKey(key)
      validateKeyPrefix(key)
    },
  )

  it('follows the rules for any string', () => {
    fc.assert(
      fc.property(fc.oneof(awkward, fc.string({ unit: 'binary' })), (key) => {
        expect(keyFault(key) === undefined).toBe(obeysTheRules(key))
      }),
    )
  })

  it('shows control characters escaped and long keys cut', () => {
    expect(() => validateKey('a\n\0')).toThrow('object key "a\\n\\u0000" contains a NUL')
    const error = new InvalidKeyError('x'.repeat(10_000), 'is too long for the store')
    expect(error.message.length).toBeLessThan(400)
    expect(isInvalidKeyError(error)).toBe(true)
  })
})

describe('validateKeyPrefix', () => {
  it('accepts the empty prefix and refuses a trailing slash', () => {
    validateKeyPrefix('')
    expect(() => validateKeyPrefix('a/')).toThrow('object prefix "a/" ends with "/"')
  })
})

describe('trimKeyPrefix', () => {
  it.each([
    ['sess-1/a', 'sess-1', 'a'],
    ['sess-1/a/b', 'sess-1/a', 'b'],
    ['sess-10/a', 'sess-1', undefined],
    ['sess-1', 'sess-1', undefined],
    ['a', '', 'a'],
    ['sess-1/', 'sess-1', ''],
    ['a', 'abc', undefined],
  ])('of %j below %j is %j', (key, prefix, expected) => {
    expect(trimKeyPrefix(key, prefix)).toBe(expected)
  })

  it('undoes joinKey', () => {
    fc.assert(
      fc.property(fc.oneof(fc.constant(''), validKey), validKey, (prefix, key) => {
        expect(trimKeyPrefix(joinKey(prefix, key), prefix)).toBe(key)
        expect(joinKey(prefix, key).startsWith(listingPrefix(prefix))).toBe(true)
      }),
    )
  })
})

describe('isFolderPlaceholder', () => {
  it.each([
    ['files/', 0, true],
    ['', 0, true],
    ['files/', 1, false],
    ['files', 0, false],
  ])('of %j with %i bytes is %j', (key, size, expected) => {
    expect(isFolderPlaceholder(key, size)).toBe(expected)
  })
})
