import assert from 'node:assert/strict'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { assertNames, patternBytes, rejectionOf } from '../assertions.ts'
import { describeBytes, readTree } from '../case-context.ts'
import type { ContractCase } from '../contract-case.ts'
import { assertProgress } from './put.ts'

/** What `hydrate` writes, and where it must not. */
export const hydrateCases: readonly ContractCase[] = [
  {
    name: 'hydrate strips the prefix and makes directories',
    rule: 'An object at P/x/y becomes the file x/y in the destination, which is created when it is missing.',
    why: 'A tree one level too deep is not the session.',
    run: async ({ backend, freshPath, store, hydrated }) => {
      await store('sessions/s1/conversation.jsonl', 'hello')
      await store('sessions/s1/files/a/b/c.txt', 'deep')
      await store('sessions/s1/files/large.bin', patternBytes(70_000, 1))
      const expected = [
        ['conversation.jsonl', 'hello'],
        ['files/a/b/c.txt', 'deep'],
        ['files/large.bin', describeBytes(patternBytes(70_000, 1))],
      ]
      const missing = join(freshPath(), 'not', 'there')
      await backend.hydrate('sessions/s1', missing)
      assert.deepEqual(await readTree(missing), expected)
      assert.deepEqual(await hydrated('sessions/s1/files/a'), [['b/c.txt', 'deep']])
    },
  },
  {
    name: 'hydrate matches whole segments',
    rule: 'Only keys that begin with P + "/" are hydrated for prefix P.',
    why: 'Raw prefix matching writes files of session 10 into session 1.',
    run: async ({ store, hydrated }) => {
      for (const key of ['sess-1/a', 'sess-10/b', 'sess-1.manifest/m', 'sess-1x']) await store(key, key)
      assert.deepEqual(await hydrated('sess-1'), [['a', 'sess-1/a']])
      assert.deepEqual(await hydrated('sess'), [])
    },
  },
  {
    name: 'hydrate leaves out the object at the prefix itself',
    rule: 'An object at P is not under P and is not hydrated.',
    why: 'It would be a file with an empty name.',
    requires: ['objectAtPrefix'],
    run: async ({ store, hydrated }) => {
      await store('p', 'at the prefix')
      await store('p/a', 'under it')
      assert.deepEqual(await hydrated('p'), [['a', 'under it']])
      assert.deepEqual(await hydrated('p/a'), [])
    },
  },
  {
    name: 'hydrate of the empty prefix gives everything',
    rule: 'The empty prefix hydrates the whole store under its full keys.',
    why: 'It is how a store is copied.',
    run: async ({ store, hydrated }) => {
      await store('top', '1')
      await store('a/b', '2')
      assert.deepEqual(await hydrated(''), [
        ['a/b', '2'],
        ['top', '1'],
      ])
    },
  },
  {
    name: 'hydrate of a prefix with nothing under it succeeds',
    rule: 'No object is not an error, and what is in the destination stays as it is.',
    why: 'Every new session and every new plugin begins with it.',
    run: async ({ backend, freshPath, store }) => {
      await store('s/a', 'x')
      const directory = freshPath()
      await mkdir(directory)
      await writeFile(join(directory, 'mine'), 'kept')
      await backend.hydrate('nothing/here', directory)
      await backend.hydrate('s/a', directory)
      assert.deepEqual(await readTree(directory), [['mine', 'kept']])
    },
  },
  {
    name: 'hydrate adds and overwrites but never deletes',
    rule: 'Files that the store has are written, over whatever was there; all others stay.',
    why: 'The engine prunes by its manifest; a driver that mirrors would delete what was never uploaded.',
    run: async ({ backend, freshPath, store }) => {
      await store('s/changed', 'new')
      await store('s/sub/added', 'added')
      const directory = freshPath()
      await mkdir(join(directory, 'sub', 'local-only'), { recursive: true })
      await writeFile(join(directory, 'changed'), 'an old and much longer content')
      await writeFile(join(directory, 'sub', 'mine'), 'kept')
      await writeFile(join(directory, 'sub', 'local-only', 'too'), 'kept')
      await backend.hydrate('s', directory)
      assert.deepEqual(await readTree(directory), [
        ['changed', 'new'],
        ['sub/added', 'added'],
        ['sub/local-only/too', 'kept'],
        ['sub/mine', 'kept'],
      ])
    },
  },
  {
    name: 'hydrate leaves no temporary files',
    rule: 'After a hydration the destination holds the files of the store and nothing else, and a second one changes nothing.',
    why: 'Leftovers would be uploaded with the next snapshot as files of the session.',
    run: async ({ backend, freshPath, store }) => {
      for (let i = 0; i < 20; i++) await store(`s/d${i % 3}/f${i}`, `content ${i}`)
      const directory = freshPath()
      await backend.hydrate('s', directory)
      const first = await readTree(directory)
      assert.equal(first.length, 20)
      await backend.hydrate('s', directory)
      assert.deepEqual(await readTree(directory), first)
    },
  },
  {
    name: 'hydrate refuses two keys that can not both be files',
    rule: 'Where both "a" and "a/b" are stored, hydrate fails and names both.',
    why: 'Whichever is written first wins silently, and half of the session is missing.',
    requires: ['objectAtPrefix'],
    run: async ({ backend, freshPath, store }) => {
      await store('s/fine', 'x')
      await store('s/dir/a', 'a file')
      await store('s/dir/a/b/c', 'and a directory')
      const error = await rejectionOf('hydrate of "a" and "a/b/c"', () => backend.hydrate('s', freshPath()))
      assertNames(error, 's/dir/a', 's/dir/a/b/c')
    },
  },
  {
    name: 'hydrate never follows a link out of the destination',
    rule: 'A symbolic link in the destination that leads outside is never written through.',
    why: 'An agent that linked a directory to somewhere else would have the next resume overwrite what is there.',
    run: async ({ backend, freshPath, store }) => {
      const [outside, directory] = [freshPath(), freshPath()]
      await mkdir(outside)
      await mkdir(directory)
      await symlink(outside, join(directory, 'sub'))
      await store('s/sub/escaped', 'x')
      const error = await rejectionOf('hydrate through a link that leads outside', () =>
        backend.hydrate('s', directory),
      )
      assertNames(error, 'sub/escaped')
      assert.deepEqual(await readTree(outside), [])
    },
  },
  {
    name: 'hydrate never writes through a link at the file itself',
    rule: 'Where a symbolic link stands at the place of a file, it is replaced or refused; its target is never written.',
    why: 'The target may be any file on the machine.',
    run: async ({ backend, file, freshPath, store }) => {
      const target = await file('outside')
      const directory = freshPath()
      await mkdir(directory)
      await symlink(target, join(directory, 'f'))
      await store('s/f', 'stored')
      await backend.hydrate('s', directory).catch(() => undefined)
      assert.equal(await readFile(target, 'utf8'), 'outside')
    },
  },
  {
    name: 'hydrate fails where a directory stands in the way',
    rule: 'A file that can not be written fails the whole hydration with its key named; nothing is deleted to make room.',
    why: 'A success that left a file out is a session with a hole.',
    run: async ({ backend, freshPath, store }) => {
      const directory = freshPath()
      await mkdir(join(directory, 'f', 'sub'), { recursive: true })
      await writeFile(join(directory, 'f', 'sub', 'mine'), 'kept')
      await store('s/f', 'stored')
      const error = await rejectionOf('hydrate over a directory', () => backend.hydrate('s', directory))
      assertNames(error, 's/f')
      assert.deepEqual(await readTree(directory), [['f/sub/mine', 'kept']])
    },
  },
  {
    name: 'hydrate ignores folder placeholders',
    rule: 'Zero-byte objects whose key ends in "/" are neither files nor an error.',
    why: 'A person who clicked "create folder" in a console must not make a session impossible to resume.',
    requires: ['plant'],
    run: async ({ hydrated, plant, store }) => {
      await store('s/files/a', 'x')
      for (const key of ['s/', 's/files/', 's/files/a/', 's/empty/']) await plant(key, '')
      assert.deepEqual(await hydrated('s'), [['files/a', 'x']])
      assert.deepEqual(await hydrated('s/empty'), [])
    },
  },
  {
    name: 'hydrate refuses malformed keys in the bucket and writes nothing outside',
    rule: 'A stored key that breaks the rules, other than a placeholder, makes hydrate fail with the key named.',
    why: 'A bucket that others can write to must not become a way to write anywhere on the machine.',
    requires: ['plant'],
    run: async ({ backend, freshPath, plant, store }) => {
      const hostile = ['../evil', 'a/../../evil', '/abs', 'a//b', './c', 'a/.', 'a\\..\\evil', 'dir/']
      await store('fine/f', 'x')
      for (const [index, relative] of hostile.entries()) {
        const key = `s${index}/${relative}`
        await plant(key, 'evil')
        const parent = freshPath()
        const directory = join(parent, 'inner', 'destination')
        await mkdir(directory, { recursive: true })
        const error = await rejectionOf(`hydrate of ${JSON.stringify(key)}`, () =>
          backend.hydrate(`s${index}`, directory),
        )
        assertNames(error, key)
        assert.deepEqual(await readTree(parent), [], `hydrate of ${JSON.stringify(key)} wrote something`)
      }
    },
  },
  {
    name: 'hydrate reports its progress',
    rule: 'A driver calls onProgress at least once per object, with totals that only grow and end at all objects and bytes.',
    why: 'A hydration is judged by what it moves: a large session that hydrates in silence is given up on.',
    run: async ({ backend, freshPath, store }) => {
      for (let i = 0; i < 5; i++) await store(`s/f${i}`, 'x'.repeat(1000 + i))
      const seen: { objects: number; bytes: number }[] = []
      await backend.hydrate('s', freshPath(), { onProgress: (progress) => seen.push({ ...progress }) })
      assertProgress(seen, { objects: 5, bytes: 5010 })
      assert.ok(seen.length >= 5, `onProgress was called ${seen.length} times for 5 objects`)
    },
  },
]
