import assert from 'node:assert/strict'
import { isInvalidKeyError } from '@nexus/objectstore'
import type { CaseContext, ContractCase } from '../contract-case.ts'

const HONEST: readonly string[] = [
  'a b',
  ' leading',
  'trailing ',
  'a+b',
  'a%2Bb',
  'a%20b',
  'a%2Fb',
  'a&b',
  'a#b',
  'a?b',
  'a=b',
  'a;b',
  'a:b',
  'a@b',
  'a,b',
  'a~b',
  "a'b",
  'a"b',
  'a<b>',
  'a|b',
  'a*b',
  '(a)',
  '[a]',
  '{a}',
  '!a',
  '$a',
  '^a',
  '`a`',
  '-rf',
  '.hidden',
  'a..b',
  '..c',
  'dir.d/..x/y',
  '__proto__',
  'constructor',
  'CON',
  'C:x',
  'caf\u00e9',
  're\u0301sume\u0301',
  '\u65e5\u672c\u8a9e/\u30d5\u30a1\u30a4\u30eb',
  '\u0645\u0644\u0641',
  '\u{1f600}',
  'a\u00a0b',
  'a\u200bb',
  '\ufb01',
]

// A store may be unable to hold these, and then must say so.
const REFUSABLE: readonly string[] = [
  // Rules for URLs drop dots at the end of a segment, and stores that live by them do, too.
  'c..',
  '...',
  'dir./x',
  'a\nb',
  'a\rb',
  'a\tb',
  'a\u0004b',
  'a\u001bb',
  'a\u007fb',
  'a\u0085b',
  'a\u2028b',
  'a\uffffb',
]

const TWINS: readonly (readonly string[])[] = [
  ['a+b', 'a b', 'a%2Bb', 'a%20b', 'a%2bb'],
  ['A.txt', 'a.txt'],
  ['\u00e9.md', 'e\u0301.md'],
  ['\ufb01', 'fi'],
  ['x', 'x ', ' x', 'x.'],
  ['k', '\u212a'],
]

const why =
  'Agents name files as they like. A name that comes back changed, or merges with another, is a file of the session lost ' +
  'without an error.'

/** Keys that stores, XML, URLs and file systems like to change. */
export const awkwardKeyCases: readonly ContractCase[] = [
  {
    name: 'keys with spaces, signs, dots and non-ASCII letters come back exactly',
    rule: 'Every key that obeys the rules is stored, listed and hydrated as the same string, whatever URLs or XML make of it.',
    why,
    run: async (context) => {
      const expected: [string, string][] = []
      for (const [index, key] of HONEST.entries()) {
        const content = `content ${index}`
        await context.store(`p/${key}`, content)
        expected.push([key, content])
      }
      const sorted = expected.toSorted(([a], [b]) => (a < b ? -1 : 1))
      const listed = await context.keys('p')
      assert.deepEqual(listed, sorted.map(([key]) => `p/${key}`).toSorted(), 'list gives other keys than were put')
      assert.deepEqual(await context.hydrated('p'), sorted, 'hydrate gives other files than were put')
    },
  },
  {
    name: 'a prefix with signs and non-ASCII letters matches exactly',
    rule: 'A prefix is a string, not a pattern and not URL-encoded: list and hydrate of "a+b" see what was put under "a+b".',
    why,
    run: async (context) => {
      const prefixes = ['a+b', 'a b', 'a%2Bb', 'a&b?c#d', '\u65e5\u672c \u{1f600}', '[ab]*']
      for (const prefix of prefixes) await context.store(`${prefix}/f`, `in ${prefix}`)
      await context.store('a/f', 'in a')
      for (const prefix of prefixes) {
        assert.deepEqual(await context.keys(prefix), [`${prefix}/f`], `list of ${JSON.stringify(prefix)}`)
        assert.deepEqual(
          await context.hydrated(prefix),
          [['f', `in ${prefix}`]],
          `hydrate of ${JSON.stringify(prefix)}`,
        )
      }
    },
  },
  {
    name: 'keys with control characters or a dot at the end come back exactly or are refused',
    rule: 'A key with a newline, tab or other control character, or with a segment that ends in a dot, is held exactly, or rejected with InvalidKeyError.',
    why: 'One such key that was stored and can not be listed breaks every later listing of the session.',
    run: async (context) => {
      const held: string[] = []
      for (const key of REFUSABLE) {
        if (await putOrRefuse(context, `p/${key}`)) held.push(key)
      }
      const sorted = held.toSorted()
      assert.deepEqual(
        await context.keys('p'),
        sorted.map((key) => `p/${key}`).toSorted(),
        'list after control characters',
      )
      const files = (await context.hydrated('p')).map(([path]) => path)
      assert.deepEqual(files, sorted, 'hydrate after control characters')
    },
  },
  {
    name: 'keys that differ only in encoding, case or Unicode form stay different objects',
    rule: 'Keys are compared code unit by code unit. A store that folds some of them together rejects the second.',
    why,
    run: async (context) => {
      // Sizes tell the objects apart without hydrating: the local disk of the machine may fold names itself.
      const expected = new Map<string, number>()
      for (const key of TWINS.flat()) {
        const size = expected.size + 1
        if (await putOrRefuse(context, `p/${key}`, 'x'.repeat(size))) expected.set(`p/${key}`, size)
      }
      const listed = (await context.backend.list('p')).map(({ key, size }) => [key, size] as const)
      assert.deepEqual(listed.toSorted(byKey), [...expected].toSorted(byKey), 'keys that look alike were mixed up')
      for (const twins of TWINS) {
        const kept = twins.filter((key) => expected.has(`p/${key}`))
        assert.ok(kept.length > 0, `none of ${JSON.stringify(twins)} could be stored`)
      }
    },
  },
  {
    name: 'a name of 255 bytes and a deep key are held',
    rule: 'A segment of 255 bytes, the longest a file system has, works in put, list, hydrate and get: temporary names must not make it longer.',
    why: 'A legal file name would make the session impossible to snapshot, or worse, impossible to resume.',
    run: async (context) => {
      const longest = `${'n'.repeat(251)}.txt`
      const wide = '\u65e5'.repeat(85)
      const deep = Array.from({ length: 40 }, (_, i) => `d${i}`).join('/')
      for (const key of [longest, wide, `${deep}/f`]) await context.store(`p/${key}`, 'content')
      const expected = [longest, wide, `${deep}/f`].toSorted()
      assert.deepEqual(
        await context.keys('p'),
        expected.map((key) => `p/${key}`),
      )
      assert.deepEqual(
        (await context.hydrated('p')).map(([path]) => path),
        expected,
      )
      if (context.backend.get !== undefined) {
        const directory = context.freshPath()
        await context.backend.hydrate(`p/${deep}`, directory)
        await context.backend.get(`p/${longest}`, `${directory}/${longest}`)
      }
    },
  },
]

function byKey([a]: readonly [string, number], [b]: readonly [string, number]): number {
  return a < b ? -1 : 1
}

async function putOrRefuse({ backend, file }: CaseContext, key: string, content = 'content'): Promise<boolean> {
  const path = await file(content)
  try {
    await backend.put(key, path)
    return true
  } catch (error) {
    const shown = JSON.stringify(key)
    assert.ok(
      isInvalidKeyError(error),
      `put of ${shown} rejected with ${String(error)}; a key that can't be held is InvalidKeyError`,
    )
    return false
  }
}
