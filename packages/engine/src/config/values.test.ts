import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseDuration } from './duration.ts'
import { expandEnvironment } from './document/environment.ts'
import { absolutePath, pathFault } from './file-path.ts'
import { nearName } from './near-name.ts'

describe('parseDuration', () => {
  it.each([
    ['250ms', 250],
    ['10s', 10_000],
    ['5m', 300_000],
    ['12h', 43_200_000],
    ['30d', 2_592_000_000],
    ['1h30m', 5_400_000],
    ['1.5s', 1500],
    ['0', 0],
    ['0s', 0],
    [' 1s ', 1000],
  ])('reads %j', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  it.each(['', '5', '-1s', '1 s', '1w', 's', '1e3s', '1s2', 'ten s', '1S', '1mo', '999999999999999d'])(
    'refuses %j',
    (text) => {
      expect(parseDuration(text)).toBeUndefined()
    },
  )
})

describe('expandEnvironment', () => {
  const environment = { A: 'one', EMPTY: '', UNSET: undefined, NESTED: '${A}' }

  it.each([
    ['${A}', 'one'],
    ['x${A}y${A}', 'xoneyone'],
    ['${UNSET:-d}', 'd'],
    ['${NOPE:-}', ''],
    ['${EMPTY:-d}', 'd'],
    ['${EMPTY}', ''],
    ['${A:-d}', 'one'],
    ['${NOPE:-a:-b c}', 'a:-b c'],
    ['$${A}', '${A}'],
    ['$$A $A $', '$$A $A $'],
    ['${NESTED}', '${A}'],
  ])('%j becomes %j', (text, expanded) => {
    expect(expandEnvironment(text, environment)).toEqual({ text: expanded })
  })

  it.each([
    ['${NOPE}', /variable NOPE, which is not set/],
    ['${UNSET}', /variable UNSET/],
    ['${', /no \$\{NAME\}/],
    ['${}', /no \$\{NAME\}/],
    ['${A', /no \$\{NAME\}/],
    ['${user.name}', /no \$\{NAME\}/],
    ['${A:?must}', /no \$\{NAME\}/],
    ['${A:-${B}}', /no \$\{NAME\}/],
    ['${constructor}', /variable constructor/],
  ])('%j is refused', (text, problem) => {
    expect(expandEnvironment(text, environment)).toEqual({ problem: expect.stringMatching(problem) })
  })

  it('leaves any text without "${" as it is', () => {
    fc.assert(
      fc.property(
        fc.string().filter((text) => !text.includes('${')),
        (text) => {
          expect(expandEnvironment(text, {})).toEqual({ text })
        },
      ),
    )
  })
})

describe('absolutePath', () => {
  const base = { home: '/home/me', cwd: '/srv' }

  it.each([
    ['~', '/home/me'],
    ['~/x/y', '/home/me/x/y'],
    ['x', '/srv/x'],
    ['/x/../y', '/y'],
    ['x/~/y', '/srv/x/~/y'],
  ])('%j is %j', (path, absolute) => {
    expect(absolutePath(path, base)).toBe(absolute)
  })

  it('refuses what can not be a path', () => {
    expect(pathFault('')).toMatch(/empty/)
    expect(pathFault('a\0b')).toMatch(/NUL/)
    expect(pathFault('~bob/x')).toMatch(/only ~ and ~\//)
    expect(pathFault('~/x')).toBeUndefined()
  })
})

describe('nearName', () => {
  const names = ['object_store', 'sessions', 'storage', 'log_level', 'root']

  it.each([
    ['object_stor', 'object_store'],
    ['objectStore', 'object_store'],
    ['object-store', 'object_store'],
    ['sesion', 'sessions'],
    ['stroage', 'storage'],
    ['loglevel', 'log_level'],
    ['rot', 'root'],
  ])('%s is near %s', (name, near) => {
    expect(nearName(name, names)).toBe(near)
  })

  it('is undefined when nothing is near', () => {
    expect(nearName('banana', names)).toBeUndefined()
    expect(nearName('x', names)).toBeUndefined()
  })
})
