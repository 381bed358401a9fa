import assert from 'node:assert/strict'
import { lstat } from 'node:fs/promises'
import type { CaseContext, ContractCase, Requirement } from '../contract-case.ts'
import { assertKeyRefused, rejectionOf } from '../assertions.ts'

/** Prefixes that break the key rules; the empty prefix is fine. */
const BAD_PREFIXES: readonly string[] = [
  '/',
  '/a',
  'a/',
  'a//b',
  '.',
  '..',
  './a',
  'a/.',
  'a/./b',
  '../a',
  'a/..',
  'a/../b',
  '../../etc/passwd',
  'a\\b',
  'a\0b',
  'a/\ud83d',
  '\udc00b',
]
const BAD_KEYS: readonly string[] = ['', ...BAD_PREFIXES]

const rule =
  'Keys are "/"-separated and not empty, with no leading or trailing "/", no empty, "." or ".." segment, no backslash, no NUL ' +
  'and no lone surrogate. Every method rejects anything else with InvalidKeyError and has done nothing by then.'
const why =
  'A key that one store normalises and another takes literally names two objects, and a ".." that gets through writes ' +
  'outside the session.'

type Call = (context: CaseContext, key: string, localPath: string) => Promise<unknown>

function refusalCase(method: string, keys: readonly string[], call: Call, requires: Requirement[] = []): ContractCase {
  return {
    name: `${method} refuses a malformed ${keys === BAD_KEYS ? 'key' : 'prefix'}`,
    rule,
    why,
    requires,
    run: async (context) => {
      await context.store('sentinel', 'kept')
      for (const key of keys) {
        const localPath = context.freshPath()
        await assertKeyRefused(method, key, () => call(context, key, localPath))
        const touched = await lstat(localPath).catch(() => undefined)
        assert.equal(touched, undefined, `${method} refused ${JSON.stringify(key)}, but touched the disk first`)
      }
      assert.deepEqual(await context.keys(''), ['sentinel'], `${method} refused its keys, but changed the store`)
    },
  }
}

function uploadRefusalCase(method: 'put' | 'putIfAbsent', requires: Requirement[] = []): ContractCase {
  return {
    name: `${method} refuses a malformed key`,
    rule,
    why,
    requires,
    run: async ({ backend, file, freshPath, keys }) => {
      const upload = (key: string, path: string): Promise<unknown> =>
        method === 'put' ? backend.put(key, path) : (backend.putIfAbsent?.(key, path) ?? Promise.resolve())
      const path = await file('content')
      for (const key of BAD_KEYS) {
        await assertKeyRefused(method, key, () => upload(key, path))
        // The file is missing too: a driver that looks at it first reports the wrong thing.
        await assertKeyRefused(`${method} from a missing file`, key, () => upload(key, freshPath()))
      }
      assert.deepEqual(await keys(''), [], `${method} refused its keys, but stored something`)
    },
  }
}

/** Every method refuses what is not a key. */
export const keyCases: readonly ContractCase[] = [
  uploadRefusalCase('put'),
  uploadRefusalCase('putIfAbsent', ['putIfAbsent']),
  refusalCase('delete', BAD_KEYS, ({ backend }, key) => backend.delete(key)),
  refusalCase('list', BAD_PREFIXES, ({ backend }, prefix) => backend.list(prefix)),
  refusalCase('hydrate', BAD_PREFIXES, ({ backend }, prefix, path) => backend.hydrate(prefix, path)),
  refusalCase('get', BAD_KEYS, ({ backend }, key, path) => backend.get?.(key, path) ?? Promise.resolve(), ['get']),
  {
    name: 'a key over the limit of the store is refused, never cut',
    rule: 'A key the store can not hold rejects; a put that resolves has stored exactly its key.',
    why: 'Two long names that were cut to the same key overwrite each other, and hydration gives one file for two.',
    run: async ({ backend, file, keys }) => {
      const path = await file('content')
      const long = Array.from({ length: 40 }, () => 'x'.repeat(100)).join('/')
      let refused = false
      try {
        await backend.put(long, path)
      } catch {
        refused = true
      }
      const expected = refused ? [] : [long]
      assert.deepEqual(
        await keys(''),
        expected,
        `a key of ${long.length} bytes was ${refused ? 'refused' : 'accepted'}`,
      )
      if (refused) await rejectionOf('a second put of a key over the limit', () => backend.put(long, path))
    },
  },
]
