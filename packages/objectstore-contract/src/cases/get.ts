import assert from 'node:assert/strict'
import { lstatSync, readFileSync } from 'node:fs'
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type ByteRange, isNexusError, type OpOptions } from '@nexus/objectstore'
import { patternBytes, rejectionOf } from '../assertions.ts'
import { describeBytes } from '../case-context.ts'
import type { CaseContext, ContractCase } from '../contract-case.ts'
import { assertMidway, assertProgress, LARGE_BYTES } from './put.ts'

async function get(context: CaseContext, key: string, path: string, options?: OpOptions & ByteRange): Promise<void> {
  await context.backend.get?.(key, path, options)
}

async function read(context: CaseContext, key: string, options?: OpOptions & ByteRange): Promise<string> {
  const path = context.freshPath()
  await get(context, key, path, options)
  return describeBytes(await readFile(path))
}

/** A small file's content, or what is there instead of one. */
function contentAt(path: string): string {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return 'gone'
  return found.size > 100 ? `a file of ${found.size} bytes` : readFileSync(path, 'utf8')
}

/** What the optional `get` does. */
export const getCases: readonly ContractCase[] = [
  {
    name: 'get writes one object to a file',
    rule: 'get writes the object of exactly that key, byte for byte, over whatever the file held; an empty one as an empty file.',
    why: 'The manifest is read this way: a wrong one decides which files exist.',
    requires: ['get'],
    run: async (context) => {
      const bytes = patternBytes(3 * 1024 * 1024 + 7, 5)
      await context.store('s/a', 'content')
      await context.store('s/ab', 'neighbour')
      await context.store('s/large', bytes)
      await context.store('s/empty', '')
      assert.equal(await read(context, 's/a'), 'content')
      assert.equal(await read(context, 's/large'), describeBytes(bytes))
      assert.equal(await read(context, 's/empty'), '')
      const path = await context.file('an old and longer content')
      await get(context, 's/a', path)
      assert.equal(await readFile(path, 'utf8'), 'content')
      await context.store('s/a', 'newer')
      assert.equal(await read(context, 's/a'), 'newer', 'get gives an older content than the last put')
    },
  },
  {
    name: 'get writes a range of an object',
    rule: 'offset and length cut bytes; a length beyond the end is cut, an offset beyond the end is an empty file.',
    why: "Packs are read in ranges: one byte too many is another file's.",
    requires: ['get'],
    run: async (context) => {
      await context.store('s/f', '0123456789')
      await context.store('s/empty', '')
      const expectations: [ByteRange, string][] = [
        [{ offset: 3 }, '3456789'],
        [{ offset: 3, length: 4 }, '3456'],
        [{ length: 4 }, '0123'],
        [{ offset: 0 }, '0123456789'],
        [{ offset: 9, length: 1 }, '9'],
        [{ offset: 8, length: 100 }, '89'],
        [{ offset: 10 }, ''],
        [{ offset: 100, length: 5 }, ''],
        [{ offset: 2, length: 0 }, ''],
      ]
      for (const [range, expected] of expectations) {
        assert.equal(await read(context, 's/f', range), expected, `range ${JSON.stringify(range)} of 0123456789`)
      }
      assert.equal(await read(context, 's/empty', { offset: 0, length: 5 }), '', 'a range of an empty object')
    },
  },
  {
    name: 'get of a missing object rejects with NOT_FOUND and leaves the file alone',
    rule: "A miss is an error that classify calls 'not-found', or ObjectNotFoundError: never an empty file, and what the file held before is still there.",
    why: 'A miss read as an empty manifest, or a failed download that truncated the local copy, loses a session.',
    requires: ['get'],
    run: async (context) => {
      await context.store('s/a/b', 'below')
      await context.store('s/ab', 'neighbour')
      const directory = context.freshPath()
      await mkdir(directory)
      const path = join(directory, 'f')
      for (const key of ['s/a', 's/missing', 'nothing/at/all']) {
        await writeFile(path, 'kept')
        for (const options of [{}, { offset: 1, length: 1 }]) {
          const error = await rejectionOf(`get of ${key}`, () => context.seam.get(key, path, options))
          assert.ok(
            isNexusError(error, 'NOT_FOUND'),
            `get of ${key} rejected with ${String(error)}, which is no miss: classify says 'not-found', or throw ObjectNotFoundError`,
          )
          assert.equal(error.key, key, 'the error does not carry the key')
        }
        assert.equal(await readFile(path, 'utf8'), 'kept')
        await rejectionOf(`get of ${key}`, () => get(context, key, join(directory, 'new')))
        assert.deepEqual(await readdir(directory), ['f'], 'a failed get left something behind')
      }
    },
  },
  {
    name: 'get does not write through a link',
    rule: 'A symbolic link at the local path is replaced or refused; its target is never written.',
    why: 'The target may be any file on the machine.',
    requires: ['get'],
    run: async (context) => {
      const target = await context.file('outside')
      const path = context.freshPath()
      await symlink(target, path)
      await context.store('s/f', 'stored')
      await get(context, 's/f', path).catch(() => undefined)
      assert.equal(await readFile(target, 'utf8'), 'outside')
    },
  },
  {
    name: 'get that can not write its file rejects',
    rule: 'A local path that can not be written is an error, and the error is not NOT_FOUND: the object is there.',
    why: 'A full or broken disk must not look like an object that does not exist.',
    requires: ['get'],
    run: async (context) => {
      await context.store('s/f', 'stored')
      const inside = join(await context.file('not a directory'), 'f')
      const missing = join(context.freshPath(), 'no', 'directory', 'f')
      for (const path of [inside, missing]) {
        const error = await rejectionOf(`get into ${dirname(path)}`, () => get(context, 's/f', path))
        const wrong = isNexusError(error, 'NOT_FOUND')
        assert.ok(!wrong, 'a local failure was reported as an object that does not exist')
      }
    },
  },
  {
    name: 'get reports its progress',
    rule: 'A driver calls onProgress with totals that only grow, and in the end with one object and all its bytes.',
    why: 'A download is judged by what it moves: one that says nothing has a fixed time, however slow the link.',
    requires: ['get'],
    run: async (context) => {
      await context.store('s/f', patternBytes(100_000, 6))
      const seen: { objects: number; bytes: number }[] = []
      await read(context, 's/f', { onProgress: (progress) => seen.push({ ...progress }) })
      assertProgress(seen, { objects: 1, bytes: 100_000 })
    },
  },
  {
    name: 'get of a large object reports while bytes move',
    rule: 'A driver reports at least once per 8 MiB, not only at the end of the call.',
    why: 'A large download over a slow link is taken for one that hangs, and begun again without end.',
    requires: ['get'],
    run: async (context) => {
      await context.store('s/large', patternBytes(LARGE_BYTES, 8))
      const seen: number[] = []
      await get(context, 's/large', context.freshPath(), { onProgress: ({ bytes }) => seen.push(bytes) })
      assertMidway(seen, LARGE_BYTES)
    },
  },
  {
    name: 'get writes no part of an object in place',
    rule: 'The file holds the old content until the new one is whole: get writes a temporary file and renames it.',
    why: 'A process that is killed in the middle would leave half a database under its name.',
    requires: ['get'],
    run: async (context) => {
      await context.store('s/large', patternBytes(LARGE_BYTES, 9))
      const path = await context.file('the old content')
      const seen: string[] = []
      const onProgress = ({ bytes, objects }: { bytes: number; objects: number }): void => {
        if (objects === 0 && bytes < LARGE_BYTES) seen.push(contentAt(path))
      }
      await get(context, 's/large', path, { onProgress })
      // A late report may find the new one: whole, it is as good.
      const whole = `a file of ${LARGE_BYTES} bytes`
      const other = seen.find((content) => content !== 'the old content' && content !== whole)
      assert.equal(other, undefined, `while the object arrived, the file at its path was ${other}`)
      assert.equal((await stat(path)).size, LARGE_BYTES)
    },
  },
  {
    name: 'get that is aborted midway leaves the file that was there',
    rule: 'An aborted or failed get leaves the local file as it was, and nothing beside it.',
    why: 'The copy that a session has is the only one that is sure to be readable when the store is not.',
    requires: ['get'],
    run: async (context) => {
      await context.store('s/large', patternBytes(LARGE_BYTES, 10))
      const directory = context.freshPath()
      await mkdir(directory)
      const path = join(directory, 'f')
      await writeFile(path, 'the old content')
      const abort = new AbortController()
      const onProgress = ({ bytes, objects }: { bytes: number; objects: number }): void => {
        if (objects === 0 && bytes < LARGE_BYTES) abort.abort(new Error('stopped in the middle'))
      }
      const outcome = await get(context, 's/large', path, { signal: abort.signal, onProgress }).then(
        () => 'resolved',
        () => 'rejected',
      )
      if (!abort.signal.aborted) return
      assert.equal(outcome, 'rejected', 'get resolved although it was aborted in the middle')
      assert.equal(contentAt(path), 'the old content')
      assert.deepEqual(await readdir(directory), ['f'], 'an aborted get left something behind')
    },
  },
]
