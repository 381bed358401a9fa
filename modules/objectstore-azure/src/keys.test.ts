import { isInvalidKeyError } from '@nexus/objectstore'
import { describe, expect, it } from 'vitest'
import { validateAzureKey } from './keys.ts'

const inPrefix = (key: string): string => `${'p'.repeat(99)}/${key}`

describe('a key', () => {
  it.each(['a b', 'caf\u00e9/\u{1f600}', 'a%2Fb', '.hidden', 'x.y.z', '..c', 'k'.repeat(924)])('is held: %j', (key) => {
    expect(() => validateAzureKey(key, inPrefix)).not.toThrow()
  })

  it.each(['a\nb', 'a\u007fb', 'a\u0085b', 'a\uffffb', 'a.', 'dir./x', '...', 'a\\b', 'k'.repeat(925)])(
    'that the store has no name for is refused: %j',
    (key) => {
      let thrown: unknown
      try {
        validateAzureKey(key, inPrefix)
      } catch (error) {
        thrown = error
      }
      expect(isInvalidKeyError(thrown)).toBe(true)
    },
  )
})
