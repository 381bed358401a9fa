import { createHash } from 'node:crypto'
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
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { storeOf } from '../../test/durability-fixture.ts'
import { Slices } from '@nexus/host'
import { nowNs, toFileStat, type FileStat } from '../tree/tree-stat.ts'
import { FileDigester } from '../capture/digester.ts'
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
  return new Uploader({
    store: storeOf(backend),
    keyPrefix: 't',
    sessionDir: dir,
    stagingDir,
    digester,
    slices: new Slices(),
  })
}

const at = (path: string): string => join(dir, path)
const stat = (path: string): FileStat => toFileStat(nodeFs.lstatSync(at(path), { bigint: true }))

/** A file that no clock tick can hide a change of. */
function put(path: string, content: string): FileStat {
  writeFileSync(at(path), content)
  return { ...stat(path) }
}

/** Long enough for a change to get another time stamp, and for a file to count as quiet. */
async function quiet(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 60))
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

const copies = (): string[] => readdirSync(stagingDir)

describe('a file that is left alone', () => {
  it('is put once, from where it is', async () => {
    const walked = put('f', 'content')
    chmodSync(at('f'), 0o4751)
    utimesSync(at('f'), 1e9, 1e9)
    await quiet()
    const outcome = await uploader().putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)
    expectExact('f', outcome)
    expect(outcome).toMatchObject({ entry: { mode: 0o751, mtime_ns: '1000000000000000000', size: 7 } })
    expect(memory.faults.calls).toHaveLength(1)
    expect(copies()).toEqual([])
  })

  it('is hashed ahead of its turn without losing exactness', async () => {
    const content = 'x'.repeat(100_000)
    const walked = put('f', content)
    await digester.digest(at('f'), { sizeHint: 9 * 1024 * 1024, slices: new Slices() })
    await quiet()
    const ahead = uploader()
    ahead.hashAhead({ live: { path: 'f', stat: walked, lookedNs: nowNs() } })
    await quiet()
    appendFileSync(at('f'), 'more')
    const outcome = await ahead.putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)
    expectExact('f', outcome)
    expect(stored('f')?.length).toBe(content.length + 4)
  })

  it('but was changed a moment ago is copied first, since its time stamp might not show the next change', async () => {
    const walked = put('f', 'content')
    const outcome = await uploader().putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)
    expectExact('f', outcome)
    expect(copies()).toEqual(['copy-0'])
  })
})

describe('a file that changes while it is stored', () => {
  it.each([
    ['grows before the put reads it', { before: () => appendFileSync(at('f'), ' more') }],
    ['grows after the put', { after: () => appendFileSync(at('f'), ' more') }],
    ['is rewritten at the same length', { before: () => writeFileSync(at('f'), 'CONTENT') }],
    ['shrinks before the put', { before: () => truncateSync(at('f'), 3) }],
    ['shrinks after the put', { after: () => truncateSync(at('f'), 3) }],
    ['is replaced by a rename', { before: () => replace('f', 'another file') }],
    ['is replaced after the put', { after: () => replace('f', 'another file') }],
  ])('and %s is stored with the digest of the stored bytes', async (_what, meddle) => {
    const walked = put('f', 'content')
    await quiet()
    let once = false
    const only = (run?: () => void) => (): void => {
      if (once || run === undefined) return
      once = true
      run()
    }
    const backend = meddling({
      ...('before' in meddle ? { before: only(meddle.before) } : {}),
      ...('after' in meddle ? { after: only(meddle.after) } : {}),
    })
    expectExact('f', await uploader(backend).putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal))
    expect(stored('f')?.toString()).toBe(nodeFs.readFileSync(at('f'), 'utf8'))
  })

  it('every time is stored as a private copy, at the third try at the latest', async () => {
    const walked = put('f', 'content')
    await quiet()
    const backend = meddling({ before: () => appendFileSync(at('f'), '+'), after: () => appendFileSync(at('f'), '-') })
    const outcome = await uploader(backend).putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)
    expectExact('f', outcome)
    expect(memory.faults.calls.length).toBeLessThanOrEqual(3)
    expect(copies()).toHaveLength(1)
    expect('content+-+-'.startsWith(stored('f')?.toString() ?? '?')).toBe(true)
  })

  it('every time, and is too large for a copy at once, is copied at the third try', async () => {
    const walked = put('f', 'content')
    truncateSync(at('f'), 17 * 1024 * 1024)
    await quiet()
    const backend = meddling({ after: () => appendFileSync(at('f'), '+') })
    const outcome = await uploader(backend).putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)
    expectExact('f', outcome)
    expect(memory.faults.calls).toHaveLength(3)
    expect(copies()).toHaveLength(1)
  })

  it('in a way that only its sidecar shows is left to SQLite', async () => {
    const walked = put('f', 'content')
    await quiet()
    const backend = meddling({
      before: () => {
        appendFileSync(at('f'), '+')
        writeFileSync(at('f-journal'), '')
      },
    })
    expect(await uploader(backend).putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)).toEqual({
      kind: 'database',
    })
  })

  it.each([
    ['vanishes', () => unlinkSync(at('f'))],
    ['is moved away', () => renameSync(at('f'), at('g'))],
    ['becomes a link', () => replaceWith(() => symlinkSync('/etc/passwd', at('f')))],
    ['becomes a directory', () => replaceWith(() => mkdirSync(at('f')))],
    ['becomes a FIFO', () => replaceWith(() => execFileSync('mkfifo', [at('f')]))],
  ])('and %s makes the tree be looked at again', async (_what, happens) => {
    for (const when of ['before', 'after'] as const) {
      const walked = put('f', 'content')
      await quiet()
      if (when === 'before') happens()
      const backend = when === 'before' ? memory : meddling({ after: happens })
      expect(await uploader(backend).putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)).toEqual({
        kind: 'gone',
      })
      rmSync(at('f'), { recursive: true, force: true })
    }
  })

  it('never reads through a link that took the place of its directory', async () => {
    mkdirSync(at('d'))
    const walked = put('d/f', 'mine')
    renameSync(at('d'), at('real'))
    const outside = mkdtempSync(join(tmpdir(), 'nexus-outside-'))
    writeFileSync(join(outside, 'f'), 'not yours')
    symlinkSync(outside, at('d'))
    expect(await uploader().putLive({ path: 'd/f', stat: walked, lookedNs: nowNs() }, signal)).toEqual({ kind: 'gone' })
    expect(stored('d/f')).toBeUndefined()
    rmSync(outside, { recursive: true })
  })

  it('by being replaced since the walk is stored as it is now', async () => {
    const walked = put('f', 'old')
    replace('f', 'new content')
    expectExact('f', await uploader().putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal))
    expect(stored('f')?.toString()).toBe('new content')
  })
})

describe('what can not be stored', () => {
  it('is a file whose name the store refuses, and only that file', async () => {
    const walked = put('f', 'content')
    memory.put = async (key) => {
      throw new InvalidKeyError(key, 'contains CR or LF')
    }
    expect(await uploader().putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)).toEqual({
      kind: 'unstorable',
      why: "the store can't hold its name: it contains CR or LF",
    })
    await quiet()
    expect(await uploader().putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)).toMatchObject({
      kind: 'unstorable',
    })
  })

  it('is a failing store: that ends the snapshot', async () => {
    const walked = put('f', 'content')
    memory.faults.failWhen(() => true)
    await expect(uploader().putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    })
    await quiet()
    await expect(uploader().putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    })
  })

  it('is nothing of the file when the process has run out of descriptors', async () => {
    const walked = put('f', 'content')
    await quiet()
    digester.digest = async () => {
      throw Object.assign(new Error('too many open files'), { code: 'EMFILE' })
    }
    await expect(uploader().putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)).rejects.toMatchObject({
      code: 'LOCAL_IO',
    })
  })

  it('is an unreadable file', async () => {
    const walked = put('f', 'content')
    await quiet()
    digester.digest = async () => {
      throw Object.assign(new Error('no'), { code: 'EACCES' })
    }
    expect(await uploader().putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)).toEqual({
      kind: 'unstorable',
      why: "it can't be read (EACCES)",
    })
  })

  it('ends the snapshot when the store holds something of it that nobody has a digest of', async () => {
    const walked = put('f', 'content')
    // Too large to be copied before its third try.
    truncateSync(at('f'), 17 * 1024 * 1024)
    await quiet()
    const real = digester.digest.bind(digester)
    let calls = 0
    digester.digest = async (path, options) => {
      if (++calls === 1) return real(path, options)
      throw Object.assign(new Error('no'), { code: 'EACCES' })
    }
    const backend = meddling({ after: (nth) => nth === 1 && appendFileSync(at('f'), '+') })
    const outcome = uploader(backend).putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, signal)
    await expect(outcome).rejects.toMatchObject({ code: 'LOCAL_IO', key: 'f' })
  })

  it('stops when the signal fires', async () => {
    const walked = put('f', 'content')
    await quiet()
    const abort = new AbortController()
    memory.faults.hang()
    const outcome = uploader().putLive({ path: 'f', stat: walked, lookedNs: nowNs() }, abort.signal)
    setImmediate(() => abort.abort(new Error('enough')))
    await expect(outcome).rejects.toThrow('enough')
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
