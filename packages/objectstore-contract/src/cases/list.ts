import assert from 'node:assert/strict'
import { forEachBounded } from '@nexus/objectstore'
import type { CaseContext, ContractCase } from '../contract-case.ts'

/** The page size of the stores there are. A probe that stores fewer can't see a driver that stops after the first page. */
const COMMON_PAGE_SIZE = 1000

/** What `list` answers. */
export const listCases: readonly ContractCase[] = [
  {
    name: 'list gives full keys with their sizes',
    rule: 'Every entry has the key that was put, whole, and the stored size in bytes; modTime, if given, is a valid Date.',
    why: 'The engine compares listed keys and sizes with its manifest to decide what is uploaded again.',
    run: async ({ backend, store }) => {
      const before = Date.now()
      await store('s/a', 'one')
      await store('s/deep/er/b', 'four')
      await store('other/c', 'x')
      const objects = await backend.list('s')
      assert.ok(Array.isArray(objects), 'list did not give an array')
      const seen = objects.map(({ key, size }) => [key, size] as const).toSorted(([a], [b]) => (a < b ? -1 : 1))
      assert.deepEqual(seen, [
        ['s/a', 3],
        ['s/deep/er/b', 4],
      ])
      for (const { key, modTime } of objects) {
        if (modTime === undefined) continue
        assert.ok(modTime instanceof Date, `modTime of ${key} is ${typeof modTime}, not a Date`)
        const offMs = Math.abs(modTime.getTime() - before)
        assert.ok(offMs < 48 * 3600 * 1000, `modTime of ${key} is ${String(modTime)}, which is not when it was stored`)
      }
    },
  },
  {
    name: 'list matches whole segments',
    rule: 'Key K is under prefix P when P is empty or K begins with P + "/". "sess-10/a" is not under "sess-1".',
    why: 'Raw prefix matching mixes two sessions: the one is hydrated with files of the other.',
    run: async ({ keys, store }) => {
      const all = ['sess-1/a', 'sess-1/sub/b', 'sess-10/a', 'sess-1.manifest/m', 'sess-1-x', 'sess-', 'x/sess-1/a']
      for (const key of all) await store(key, key)
      assert.deepEqual(await keys('sess-1'), ['sess-1/a', 'sess-1/sub/b'])
      assert.deepEqual(await keys('sess-10'), ['sess-10/a'])
      assert.deepEqual(await keys('sess'), [])
      assert.deepEqual(await keys('sess-1/sub'), ['sess-1/sub/b'])
    },
  },
  {
    name: 'list leaves out the object at the prefix itself',
    rule: 'An object at P is not under P.',
    why: 'It has no relative path: a hydration would have to write a file where the directory goes.',
    requires: ['objectAtPrefix'],
    run: async ({ keys, store }) => {
      await store('p', 'at the prefix')
      await store('p/a', 'under it')
      assert.deepEqual(await keys('p'), ['p/a'])
      assert.deepEqual(await keys(''), ['p', 'p/a'])
      assert.deepEqual(await keys('p/a'), [])
    },
  },
  {
    name: 'list of the empty prefix gives everything',
    rule: 'The empty prefix is everything in this store, at any depth.',
    why: 'Tools that look for orphans and that move a store see only a part of it.',
    run: async ({ keys, store }) => {
      assert.deepEqual(await keys(''), [])
      for (const key of ['top', 'a/b', 'a/b2/c/d', 'z/y']) await store(key, key)
      assert.deepEqual(await keys(''), ['a/b', 'a/b2/c/d', 'top', 'z/y'])
    },
  },
  {
    name: 'list of a prefix with nothing under it is empty',
    rule: 'A prefix without objects lists as an empty array, not as an error.',
    why: 'The first snapshot of every session lists its own prefix.',
    run: async ({ keys, store }) => {
      assert.deepEqual(await keys('nothing/here'), [])
      await store('s/a', 'x')
      assert.deepEqual(await keys('s/a'), [])
      assert.deepEqual(await keys('s/b'), [])
    },
  },
  {
    name: 'list is current after every change',
    rule: 'A listing shows each put and delete that resolved before it began, with the newest size.',
    why: 'A stale listing makes a snapshot leave out a file that is not there, and the commit names a missing object.',
    run: async ({ backend, store }) => {
      const sizes = async (): Promise<string[]> =>
        (await backend.list('s')).map(({ key, size }) => `${key} ${size}`).toSorted()
      await store('s/a', '1')
      await store('s/b', '1')
      assert.deepEqual(await sizes(), ['s/a 1', 's/b 1'])
      await store('s/a', '22')
      assert.deepEqual(await sizes(), ['s/a 2', 's/b 1'])
      await backend.delete('s/b')
      assert.deepEqual(await sizes(), ['s/a 2'])
      await backend.delete('s/a')
      assert.deepEqual(await sizes(), [])
      await store('s/b', '333')
      assert.deepEqual(await sizes(), ['s/b 3'])
    },
  },
  {
    name: 'list and hydrate are complete beyond one page',
    rule: 'All objects are listed and hydrated, each once, whatever the page size of the store.',
    why: 'What a listing leaves out looks deleted: files are missing after a resume, and a collector removes live data.',
    run: async ({ backend, file, hydrated, keys, listProbeCount }) => {
      const path = await file('x')
      const names = Array.from({ length: listProbeCount }, (_, i) => `${i % 7}/${String(i).padStart(6, '0')}`)
      await forEachBounded(names, 16, (name) => backend.put(`s/${name}`, path))
      const sorted = names.toSorted()
      const listed = await keys('s')
      assert.equal(listed.length, names.length, `list gave ${listed.length} of ${names.length} objects`)
      assert.deepEqual(
        listed,
        sorted.map((name) => `s/${name}`),
      )
      const files = (await hydrated('s')).map(([name]) => name)
      assert.equal(files.length, names.length, `hydrate gave ${files.length} of ${names.length} objects`)
      assert.deepEqual(files, sorted)
    },
  },
  {
    name: 'list leaves out folder placeholders',
    rule: 'Zero-byte objects whose key ends in "/", which store consoles create, are not objects of ours.',
    why: 'A person who clicked "create folder" must not make a session impossible to resume.',
    requires: ['plant'],
    run: async ({ keys, plant, store }) => {
      await store('s/files/a', 'x')
      await plant('s/', '')
      await plant('s/files/', '')
      await plant('s/empty/', '')
      assert.deepEqual(await keys('s'), ['s/files/a'])
      assert.deepEqual(await keys(''), ['s/files/a'])
      assert.deepEqual(await keys('s/empty'), [])
    },
  },
]

/** What a probe below the common page size is worth, for test names and reports; undefined for a probe that can tell. */
export function pagingCaveat(count: number): string | undefined {
  if (count > COMMON_PAGE_SIZE) return undefined
  return `with ${count} objects this proves nothing about paging unless the store's pages are smaller`
}

async function namesBelow(context: CaseContext, prefix: string): Promise<string[]> {
  return ((await context.backend.listNames?.(prefix)) ?? []).toSorted()
}

/** What the optional `listNames` answers. */
export const listNamesCases: readonly ContractCase[] = [
  {
    name: 'listNames gives the names one level below a prefix',
    rule: 'First segments of the keys under the prefix, each once, whether an object or more names are there; whole segments, no prefix, no "/".',
    why: 'Sessions are listed this way: a name too many is a session that does not exist, one too few is lost to every tool.',
    requires: ['listNames'],
    run: async (context) => {
      assert.deepEqual(await namesBelow(context, 's'), [])
      const keys = ['s/one/a', 's/one/b/c', 's/two', 's/three/x', 's-other/four', 'top']
      for (const key of keys) await context.store(key, 'x')
      assert.deepEqual(await namesBelow(context, 's'), ['one', 'three', 'two'])
      assert.deepEqual(await namesBelow(context, 's/one'), ['a', 'b'])
      assert.deepEqual(await namesBelow(context, 's/two'), [], 'the object at the prefix is not under it')
      assert.deepEqual(await namesBelow(context, ''), ['s', 's-other', 'top'])
    },
  },
  {
    name: 'listNames is complete beyond one page',
    rule: 'All names are given, each once, whatever the page size of the store.',
    why: 'A session that is not listed can be neither found nor cleaned up.',
    requires: ['listNames'],
    run: async (context) => {
      const all = Array.from({ length: context.listProbeCount }, (_, i) => `n${String(i).padStart(6, '0')}`)
      const path = await context.file('x')
      for (let at = 0; at < all.length; at += 16) {
        await Promise.all(all.slice(at, at + 16).map((name) => context.backend.put(`s/${name}/f`, path)))
      }
      assert.deepEqual(await namesBelow(context, 's'), all)
    },
  },
]
