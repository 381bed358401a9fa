import { isNexusError } from '@nexus/errors'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { generateSessionId, isSessionId, validateSessionId } from './session-id.ts'

const clock = { now: () => Date.UTC(2026, 10, 29, 16, 34, 12, 345) }

describe('validateSessionId', () => {
  it.each(['a', '0', 'A_b-9', '20261129T163412Z-1a2b3c4d', 'x'.repeat(128), 'console', 'com10', 'constructor', 'COM'])(
    'takes %s',
    (id) => {
      expect(validateSessionId(id)).toBe(id)
    },
  )

  it.each([
    '../x',
    'a/b',
    '.',
    '..',
    '',
    'x'.repeat(300),
    'x'.repeat(129),
    'CON',
    'nul',
    'Aux',
    'prn',
    'COM1',
    'lpt9',
    'x\0y',
    '__proto__',
    '_a',
    '-a',
    'a.manifest',
    'a.owner',
    'a b',
    'a\n',
    'é',
    'a\\b',
    'C:',
  ])('refuses %j before any path is built from it', (id) => {
    expect(isSessionId(id)).toBe(false)
    expect(() => validateSessionId(id)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })

  it.each([undefined, null, 7, {}, ['a']])('refuses the non-string %j', (id) => {
    expect(() => validateSessionId(id)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })

  it('refuses a string of any kind or takes it as it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (id) => {
        let outcome: unknown
        try {
          outcome = validateSessionId(id)
        } catch (error) {
          outcome = error
        }
        const taken = outcome === id && /^[\w-]+$/.test(id)
        expect(taken || isNexusError(outcome, 'INVALID_ARGUMENT')).toBe(true)
      }),
    )
  })
})

describe('generateSessionId', () => {
  it('writes the three formats in UTC', () => {
    let n = 0
    const random = () => [0x1a2b3c4d, 1, 0, 0xffffffff][n++ % 4]! / 2 ** 32
    expect(generateSessionId('timestamp', { clock, random })).toBe('20261129T163412Z-1a2b3c4d')
    n = 0
    expect(generateSessionId('datetime_short', { clock, random })).toBe('1129-1634-1a2b')
    n = 0
    expect(generateSessionId('hex', { clock, random })).toBe('1a2b3c4d0000000100000000ffffffff')
  })

  it('makes ids that are valid and differ', () => {
    const ids = new Set(Array.from({ length: 500 }, () => generateSessionId('timestamp', { clock })))
    expect(ids.size).toBe(500)
    for (const id of ids) expect(validateSessionId(id)).toBe(id)
  })

  it('sorts by time under the timestamp format', () => {
    const early = generateSessionId('timestamp', { clock: { now: () => 1_000 } })
    const late = generateSessionId('timestamp', { clock: { now: () => 2_000 } })
    expect(early < late).toBe(true)
  })
})
