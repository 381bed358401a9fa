import assert from 'node:assert/strict'
import { appendFileSync, statSync } from 'node:fs'
import { appendFile, mkdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { patternBytes, rejectionOf } from '../assertions.ts'
import { describeBytes } from '../case-context.ts'
import type { CaseContext, ContractCase } from '../contract-case.ts'

const MIB = 1024 * 1024
/** Large enough that it moves in several pieces. */
export const LARGE_BYTES: number = 17 * MIB

/** What `put` does to the store, and what it leaves alone. */
export const putCases: readonly ContractCase[] = [
  {
    name: 'put stores the bytes as they are',
    rule: 'The object is the file, byte for byte: no text conversion, no compression that shows, no added framing.',
    why: 'Databases, images and compressed journals come back broken, and only at the next resume.',
    run: async ({ store, hydrated }) => {
      const every = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
      const text = 'line one\r\nline two\n\ufeffno newline at the end \u{1f600}'
      await store('s/every-byte', every)
      await store('s/text', text)
      await store('s/magic.gz', Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0]))
      assert.deepEqual(await hydrated('s'), [
        ['every-byte', describeBytes(every)],
        ['magic.gz', describeBytes(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0]))],
        ['text', text],
      ])
    },
  },
  {
    name: 'put stores an empty file as an empty object',
    rule: 'A file of no bytes is an object of size 0: listed, and hydrated as an empty file.',
    why: 'Empty marker files and freshly created logs vanish from the resumed session.',
    run: async ({ backend, store, hydrated }) => {
      await store('s/empty', '')
      await store('s/sub/empty', '')
      const sizes = (await backend.list('s')).map(({ key, size }) => `${key} ${size}`).toSorted()
      assert.deepEqual(sizes, ['s/empty 0', 's/sub/empty 0'])
      assert.deepEqual(await hydrated('s'), [
        ['empty', ''],
        ['sub/empty', ''],
      ])
    },
  },
  {
    name: 'put replaces the object whole',
    rule: 'A second put of a key leaves exactly the new bytes, also when they are fewer, and never a second object.',
    why: 'A shorter file with the tail of the longer one behind it is a mixture of two turns.',
    run: async ({ backend, store, hydrated }) => {
      await store('s/f', 'a long first version of the file')
      await store('s/f', 'short')
      assert.deepEqual(await hydrated('s'), [['f', 'short']])
      assert.deepEqual(
        (await backend.list('s')).map(({ key, size }) => [key, size]),
        [['s/f', 5]],
      )
      await store('s/f', '')
      assert.deepEqual(await hydrated('s'), [['f', '']])
    },
  },
  {
    name: 'put is seen at once by list and hydrate',
    rule: 'What a put that resolved has stored, the next list and hydrate see, before any flush.',
    why: 'A snapshot decides from a listing what it may leave out.',
    run: async ({ keys, store, hydrated }) => {
      assert.deepEqual(await keys('s'), [])
      await store('s/first', '1')
      assert.deepEqual(await keys('s'), ['s/first'])
      await store('s/second', '2')
      assert.deepEqual(await keys('s'), ['s/first', 's/second'])
      assert.deepEqual(await hydrated('s'), [
        ['first', '1'],
        ['second', '2'],
      ])
    },
  },
  {
    name: 'put leaves the local file untouched',
    rule: 'The local file is only read: its bytes, mode and modification time are the same afterwards.',
    why: 'The engine goes on writing to that very file; a driver that moves or marks it takes it out of the session.',
    run: async ({ backend, file }) => {
      const path = await file('content')
      await utimes(path, new Date(1_000_000_000_000), new Date(1_000_000_000_000))
      const before = await stat(path)
      await backend.put('s/f', path)
      const after = await stat(path)
      assert.equal(await readFile(path, 'utf8'), 'content')
      assert.deepEqual([after.ino, after.mode, after.mtimeMs], [before.ino, before.mode, before.mtimeMs])
    },
  },
  {
    name: 'put keeps nothing of the local file',
    rule: 'When put resolves, the object is independent of the file: later changes of the file do not show.',
    why: 'The file belongs to the session, which changes it in the next turn; the stored one is the committed turn.',
    run: async ({ backend, file, hydrated }) => {
      const path = await file('first')
      await backend.put('s/f', path)
      await writeFile(path, 'other')
      await appendFile(path, ' and more')
      assert.deepEqual(await hydrated('s'), [['f', 'first']])
    },
  },
  failedPutCase('a missing file', async ({ freshPath }) => freshPath()),
  failedPutCase('a directory', async ({ freshPath }) => {
    const path = freshPath()
    await mkdir(path)
    return path
  }),
  failedPutCase('a file that may not be read', async ({ file, freshPath }) => {
    // Root may read everything; a path through a file can't be opened by anyone.
    if (process.getuid?.() === 0) return `${await file('not a directory')}/below`
    const path = freshPath()
    await writeFile(path, 'secret', { mode: 0o000 })
    return path
  }),
  {
    name: 'put stores a large file whole',
    rule: 'A file of many buffers or parts is stored completely and in order.',
    why: 'A truncated database opens, and then fails in the middle of a turn.',
    run: async ({ backend, store, hydrated }) => {
      const bytes = patternBytes(17 * MIB + 12_345, 1)
      await store('s/large', bytes)
      assert.deepEqual(
        (await backend.list('s')).map(({ size }) => size),
        [bytes.length],
      )
      assert.deepEqual(await hydrated('s'), [['large', describeBytes(bytes)]])
    },
  },
  {
    name: 'put of a growing file stores its first bytes',
    rule: 'Of a file that is appended to during the upload, the bytes that it had when it was opened are stored.',
    why: 'Logs are appended to while a snapshot runs: the upload must neither fail nor chase the end of the file.',
    run: async ({ backend, file, freshPath }) => {
      const original = patternBytes(17 * MIB, 2)
      const path = await file(original)
      let opened: number | undefined
      const onProgress = ({ bytes }: { bytes: number }): void => {
        if (opened !== undefined || bytes === 0 || bytes >= original.length) return
        opened = statSync(path).size
        for (let i = 0; i < 4; i++) appendFileSync(path, patternBytes(MIB, 3))
      }
      const put = backend.put('s/log', path, { onProgress })
      appendFileSync(path, 'one more line\n')
      await put
      const [stored] = await backend.list('s')
      const size = stored?.size ?? -1
      assert.ok(
        size >= original.length,
        `${size} bytes are stored of a file that had ${original.length} before the put`,
      )
      const most = opened ?? original.length + 14
      assert.ok(size <= most, `${size} bytes are stored of a file that had at most ${most} when it was opened`)
      const directory = freshPath()
      await backend.hydrate('s', directory)
      const content = await readFile(`${directory}/log`)
      assert.ok(
        content.equals((await readFile(path)).subarray(0, size)),
        'what is stored is not the beginning of the file',
      )
    },
  },
  {
    name: 'put reports its progress',
    rule: 'A driver calls onProgress with totals that only grow, and in the end with one object and all its bytes.',
    why: 'An upload is judged by what it moves: one that says nothing has a fixed time, however slow the link.',
    run: async ({ backend, file }) => {
      const path = await file(patternBytes(100_000, 4))
      const seen: { objects: number; bytes: number }[] = []
      await backend.put('s/f', path, { onProgress: (progress) => seen.push({ ...progress }) })
      assertProgress(seen, { objects: 1, bytes: 100_000 })
    },
  },
  {
    name: 'put of a large file reports while bytes move',
    rule: 'A driver reports at least once per 8 MiB, not only at the end of the call.',
    why: 'A large upload over a slow link is taken for one that hangs, and begun again without end.',
    run: async ({ backend, file }) => {
      const path = await file(patternBytes(LARGE_BYTES, 11))
      const seen: number[] = []
      await backend.put('s/large', path, { onProgress: ({ bytes }) => seen.push(bytes) })
      assertMidway(seen, LARGE_BYTES)
    },
  },
]

function failedPutCase(what: string, source: (context: CaseContext) => Promise<string>): ContractCase {
  return {
    name: `put of ${what} rejects and stores nothing`,
    rule: 'A local file that is missing or can not be read is an error, and the store stays as it was: no empty and no partial object.',
    why: 'An empty object over a committed file would replace a turn that was safe.',
    run: async (context) => {
      const path = await source(context)
      await context.store('s/old', 'committed')
      await rejectionOf(`put of ${what} to a free key`, () => context.backend.put('s/new', path))
      await rejectionOf(`put of ${what} over an object`, () => context.backend.put('s/old', path))
      assert.deepEqual(await context.hydrated('s'), [['old', 'committed']])
      assert.deepEqual(await context.keys(''), ['s/old'])
    },
  }
}

/** Demands totals that never shrink and that end at the given ones. */
export function assertProgress(
  seen: readonly { objects: number; bytes: number }[],
  end: { objects: number; bytes: number },
): void {
  assert.ok(seen.length > 0, 'onProgress was never called')
  let last = { objects: 0, bytes: 0 }
  for (const progress of seen) {
    const grows = progress.objects >= last.objects && progress.bytes >= last.bytes
    assert.ok(grows, `progress went back from ${JSON.stringify(last)} to ${JSON.stringify(progress)}`)
    last = progress
  }
  assert.deepEqual(last, end, 'the last progress is not the total')
}

/** Demands reports between the first byte and the last, at least one for each 8 MiB. */
export function assertMidway(seen: readonly number[], sizeBytes: number): void {
  const midway = new Set(seen.filter((bytes) => bytes > 0 && bytes < sizeBytes))
  const fewest = Math.floor((sizeBytes - 1) / (8 * MIB))
  assert.ok(
    midway.size >= fewest,
    `onProgress told ${midway.size} times of bytes under way, of ${sizeBytes}: it must tell at least ${fewest} times`,
  )
}
