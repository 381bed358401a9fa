import { createHash, randomBytes } from 'node:crypto'
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import nodeFs from 'node:fs'
import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InvalidKeyError, type Backend } from '@nexus/objectstore'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { storeOf } from '../../test/durability-fixture.ts'
import { Slices, TreeCursor, FileDigester } from '@nexus/host'
import { toFileStat, type FileStat } from '../tree/tree-stat.ts'
import { Uploader, type UploadOutcome } from './upload.ts'

const { signal } = new AbortController()

let base: string
let dir: string
let stagingDir: string
let memory: MemoryBackend
let digester: FileDigester
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'nexus-upload-'))
  dir = join(base, 'session')
  stagingDir = join(base, 'staging')
  mkdirSync(dir)
  mkdirSync(stagingDir)
  memory = createMemoryBackend()
  digester = new FileDigester()
})
afterEach(async () => {
  await digester.close()
  rmSync(base, { recursive: true })
})

/** The backend, with something that happens to the local file before and after each put. */
function meddling(meddle: { before?: (put: number) => void; after?: (put: number) => unknown }): Backend {
  const putReally = memory.put.bind(memory)
  let puts = 0
  return Object.assign(memory, {
    put: async (...args: Parameters<Backend['put']>) => {
      const nth = ++puts
      meddle.before?.(nth)
      await putReally(...args)
      meddle.after?.(nth)
    },
  })
}

function uploader(backend: Backend = memory): Uploader {
  const cursor = new TreeCursor(dir)
  const made = new Uploader({
    store: storeOf(backend),
    keyPrefix: 't',
    cursor,
    stagingDir: mkdtempSync(join(stagingDir, 'one-')),
    digester,
    slices: new Slices(),
  })
  onTestFinished(() => {
    made.close()
    cursor.close()
  })
  return made
}

/** Something that happens just before the n-th file is read, and after that. */
function meddlingReads(meddle: { before?: (read: number) => void; after?: (read: number) => void }): void {
  const real = digester.digest.bind(digester)
  let reads = 0
  digester.digest = async (file, options) => {
    const nth = ++reads
    meddle.before?.(nth)
    const digest = await real(file, options)
    meddle.after?.(nth)
    return digest
  }
}

const at = (path: string): string => join(dir, path)
const stat = (path: string): FileStat => toFileStat(nodeFs.lstatSync(at(path), { bigint: true }))

function put(path: string, content: string | Buffer): FileStat {
  writeFileSync(at(path), content)
  return stat(path)
}

function stored(path: string): Buffer | undefined {
  return memory.objects.get(`t/${path}`)?.bytes
}

/** The one invariant: the entry describes the bytes in the store. */
function expectExact(path: string, outcome: UploadOutcome): void {
  expect(outcome.kind).toBe('stored')
  if (outcome.kind !== 'stored') return
  const bytes = stored(path)
  expect(outcome.entry.size).toBe(bytes?.length)
  expect(outcome.entry.sha256).toBe(
    createHash('sha256')
      .update(bytes ?? '')
      .digest('hex'),
  )
}

const copies = (): string[] =>
  readdirSync(stagingDir, { recursive: true, encoding: 'utf8' }).flatMap((path) => path.split('/')[1] ?? [])
const LARGE = 17 * 1024 * 1024

describe('a file that is left alone', () => {
  it('is stored as a copy, with mode and time of the original', async () => {
    put('f', 'content')
    chmodSync(at('f'), 0o4751)
    utimesSync(at('f'), 1e9, 1e9)
    const outcome = await uploader().putLive('f', signal)
    expectExact('f', outcome)
    expect(outcome).toMatchObject({ entry: { mode: 0o751, mtime_ns: '1000000000000000000', size: 7 } })
    expect(memory.faults.calls).toHaveLength(1)
  })

  it('shares the file of its copy with those that come after it, each exact', async () => {
    const one = uploader()
    for (const content of ['a long content', 'short', '', randomBytes(1_500_000), 'x']) {
      put('f', content)
      expectExact('f', await one.putLive('f', signal))
      expect(stored('f')?.equals(Buffer.from(content))).toBe(true)
    }
    expect(copies()).toEqual(['copy-0'])
  })

  it('and is large is stored from where it is', async () => {
    put('f', randomBytes(LARGE))
    expectExact('f', await uploader().putLive('f', signal))
    expect(memory.faults.calls).toHaveLength(1)
    expect(copies()).toEqual([])
  })

  it('and is large and named by its digest is read once besides', async () => {
    const bytes = randomBytes(LARGE)
    put('f', bytes)
    let reads = 0
    meddlingReads({ before: () => reads++ })
    const named = createHash('sha256').update(bytes).digest('hex')
    expectExact('f', await uploader().putLive('f', signal, named))
    expect(reads).toBe(1)
    expectExact('f', await uploader().putLive('f', signal, '0'.repeat(64)))
  })
})

describe('a file that changes while it is stored', () => {
  it.each([
    ['grows', () => appendFileSync(at('f'), ' more')],
    ['is rewritten at the same length', () => writeFileSync(at('f'), 'CONTENT')],
    ['shrinks', () => truncateSync(at('f'), 3)],
    ['is replaced by a rename', () => replace('f', 'another file')],
    ['vanishes', () => unlinkSync(at('f'))],
  ])('and %s is stored with the digest of the stored bytes', async (_what, change) => {
    for (const when of ['before the reading', 'after the reading', 'before the put', 'after the put']) {
      put('f', 'content')
      let done = false
      const once = (): void => {
        if (done) return
        done = true
        change()
      }
      if (when === 'before the reading') meddlingReads({ before: once })
      if (when === 'after the reading') meddlingReads({ after: once })
      const backend = meddling({
        ...(when === 'before the put' ? { before: once } : {}),
        ...(when === 'after the put' ? { after: once } : {}),
      })
      expectExact('f', await uploader(backend).putLive('f', signal))
      expect(done).toBe(true)
    }
  })

  it('every time is stored as it was at the third reading at the latest', async () => {
    put('f', 'content')
    meddlingReads({ after: () => appendFileSync(at('f'), '+') })
    expectExact('f', await uploader().putLive('f', signal))
    expect(stored('f')?.toString()).toBe('content++')
  })

  it('and is large is copied when it changed twice', async () => {
    put('f', randomBytes(LARGE))
    const backend = meddling({ after: () => appendFileSync(at('f'), '+') })
    expectExact('f', await uploader(backend).putLive('f', signal))
    expect(memory.faults.calls).toHaveLength(3)
    expect(copies()).toHaveLength(1)
  })

  it('without any trace in its times is copied, too: what was sent is what is told', async () => {
    put('f', randomBytes(LARGE))
    // As through a shared mapping, which moves no time stamp: only another reading shows it.
    let reads = 0
    const real = digester.digest.bind(digester)
    digester.digest = async (file, options) => {
      const digest = await real(file, options)
      return ++reads === 2 ? { ...digest, sha256: '0'.repeat(64) } : digest
    }
    expectExact('f', await uploader().putLive('f', signal))
    expect(reads).toBe(4)
  })

  it('in a way that only its sidecar shows is left to SQLite', async () => {
    for (const size of [7, LARGE]) {
      put('f', Buffer.alloc(size))
      const change = (): void => {
        appendFileSync(at('f'), '+')
        writeFileSync(at('f-journal'), '')
      }
      if (size === LARGE) meddling({ before: change })
      else meddlingReads({ before: change })
      expect(await uploader().putLive('f', signal)).toEqual({ kind: 'database' })
    }
  })

  it.each([
    ['vanished', () => unlinkSync(at('f'))],
    ['moved away', () => renameSync(at('f'), at('g'))],
    ['became a link', () => replaceWith(() => symlinkSync('/etc/passwd', at('f')))],
    ['became a directory', () => replaceWith(() => mkdirSync(at('f')))],
    ['became a FIFO', () => replaceWith(() => execFileSync('mkfifo', [at('f')]))],
  ])('and %s before makes the tree be looked at again', async (_what, happens) => {
    put('f', 'content')
    happens()
    expect(await uploader().putLive('f', signal)).toEqual({ kind: 'gone' })
    expect(memory.objects.size).toBe(0)
  })
})

describe('a directory that is swapped for a link', () => {
  function swapping(): () => void {
    const outside = mkdtempSync(join(tmpdir(), 'nexus-outside-'))
    onTestFinished(() => rmSync(outside, { recursive: true }))
    mkdirSync(join(outside, 'sub'))
    writeFileSync(join(outside, 'sub/f'), 'not yours')
    return () => {
      renameSync(at('d'), at('real'))
      symlinkSync(outside, at('d'))
    }
  }

  it.each([7, LARGE])('at any step leads to no byte from outside: %i bytes', async (size) => {
    for (const step of ['opening', 'reading', 'put', 'after'] as const) {
      rmSync(dir, { recursive: true })
      mkdirSync(at('d/sub'), { recursive: true })
      put('d/sub/f', Buffer.alloc(size, 'm'))
      const swap = swapping()
      if (step === 'opening') swap()
      if (step === 'reading') meddlingReads({ before: (nth) => nth === 1 && swap() })
      const backend = meddling({
        before: (nth) => step === 'put' && nth === 1 && swap(),
        after: (nth) => step === 'after' && nth === 1 && swap(),
      })
      const outcome = await uploader(backend).putLive('d/sub/f', signal)
      expect(outcome.kind).toBe(step === 'opening' ? 'gone' : 'stored')
      if (step !== 'opening') expectExact('d/sub/f', outcome)
      expect(stored('d/sub/f')?.includes('not yours') ?? false).toBe(false)
      memory.objects.clear()
    }
  })

  it('is noticed without /proc as well, and everything is copied', async () => {
    mkdirSync(at('d/sub'), { recursive: true })
    put('d/sub/f', randomBytes(LARGE))
    const cursor = new TreeCursor(dir, { descriptorPath: () => undefined })
    onTestFinished(() => cursor.close())
    expect(readdirSync(cursor.directory('d/sub'))).toEqual(['f'])
    swapping()()
    expect(() => cursor.openFile('d/sub/f')).toThrow(expect.objectContaining({ code: 'ENOTDIR' }))
  })
})

describe('what can not be stored', () => {
  it('is a file whose name the store refuses, and only that file', async () => {
    memory.put = async (key) => {
      throw new InvalidKeyError(key, 'contains CR or LF')
    }
    for (const size of [7, LARGE]) {
      put('f', Buffer.alloc(size))
      expect(await uploader().putLive('f', signal)).toEqual({
        kind: 'unstorable',
        why: "the store can't hold its name: it contains CR or LF",
      })
    }
  })

  it('is a failing store: that ends the snapshot', async () => {
    memory.faults.failWhen(() => true)
    for (const size of [7, LARGE]) {
      put('f', Buffer.alloc(size))
      await expect(uploader().putLive('f', signal)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    }
  })

  it.each(['EMFILE', 'ENFILE', 'ENOMEM', 'EIO', 'ENOSPC'])(
    'is nothing of the file when the machine says %s, while it is read or copied',
    async (code) => {
      const walked = put('f', 'content')
      digester.digest = async () => {
        throw Object.assign(new Error('no'), { code })
      }
      const failed = { code: 'LOCAL_IO', key: 'f', retryable: true }
      await expect(uploader().putLive('f', signal)).rejects.toMatchObject(failed)
      await expect(uploader().digestOf('f', walked, signal)).rejects.toMatchObject(failed)
      expect(memory.objects.size).toBe(0)
    },
  )

  it('is an unreadable file', async () => {
    put('f', 'content')
    digester.digest = async () => {
      throw Object.assign(new Error('no'), { code: 'EACCES' })
    }
    expect(await uploader().putLive('f', signal)).toEqual({ kind: 'unstorable', why: "it can't be read (EACCES)" })
  })

  it('stops when the signal fires, and writes into no copy that the driver may still read', async () => {
    put('f', 'content')
    const abort = new AbortController()
    memory.faults.hang()
    const one = uploader()
    const outcome = one.putLive('f', abort.signal)
    setTimeout(() => abort.abort(new Error('enough')), 20)
    await expect(outcome).rejects.toThrow('enough')
    memory.faults.heal()
    expectExact('f', await one.putLive('f', signal))
    expect(copies()).toEqual(['copy-0', 'copy-1'])
  })
})

describe('a copy of our own', () => {
  it('is stored under the path of the tree, with the mode and time of its original', async () => {
    writeFileSync(join(stagingDir, 'db'), 'rows')
    const file = { path: 'p/store.db', localPath: join(stagingDir, 'db'), sizeBytes: 4, mode: 0o640, mtimeNs: 5n }
    const outcome = await uploader().putStaged(file, signal)
    expectExact('p/store.db', outcome)
    expect(outcome).toMatchObject({ entry: { mode: 0o640, mtime_ns: '5' } })
  })
})

function replace(path: string, content: string): void {
  writeFileSync(at(`${path}.new`), content)
  renameSync(at(`${path}.new`), at(path))
}

function replaceWith(make: () => void): void {
  unlinkSync(at('f'))
  make()
}
