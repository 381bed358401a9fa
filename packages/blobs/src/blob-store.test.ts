import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { isNexusError, NexusError } from '@nexus/errors'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { BlobStore, blobUri, type BlobInfo, type BlobStoreOptions } from './index.ts'
import { blobPaths, encodeMeta } from './layout.ts'

let root: string
let dir: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nexus-blobs-'))
  dir = join(root, 'data', 'blobs')
})

afterEach(() => {
  rmSync(root, { recursive: true, force: true })
})

function sha(data: Uint8Array): string {
  return createHash('sha256').update(data).digest('hex')
}

function open(options: BlobStoreOptions = {}): BlobStore {
  return BlobStore.open(dir, options)
}

function filesBelow(path: string): string[] {
  return existsSync(path)
    ? readdirSync(path, { recursive: true, withFileTypes: true })
        .filter((entry) => !entry.isDirectory())
        .map((entry) => entry.name)
    : []
}

describe('put', () => {
  it('stores bytes under their digest, with the media type and size beside them', async () => {
    const data = randomBytes(70_000)
    const info = await open().put(data, 'application/pdf')
    const sha256 = sha(data)
    const path = join(dir, sha256.slice(0, 2), `${sha256}.bin`)
    expect(info).toEqual({ sha256, mediaType: 'application/pdf', size: 70_000, path, uri: `nexus-blob:${sha256}` })
    expect(readFileSync(path)).toEqual(data)
    expect(readFileSync(path.replace(/bin$/, 'meta'), 'utf8')).toBe('application/pdf\n70000\n')
    expect(filesBelow(dir)).toHaveLength(2)
  })

  it.each([0, 1, 65_536, 512 * 1024, 512 * 1024 + 1, 3_000_000])('gives back %i bytes as they were', async (size) => {
    const data = randomBytes(size)
    for (const fsync of [true, false]) {
      const store = BlobStore.open(join(root, String(fsync)), { fsync })
      const { uri } = await store.put(data)
      expect((await store.get(uri)).data.equals(data)).toBe(true)
    }
  })

  it('stores a stream and a file the same as the bytes', async () => {
    const data = randomBytes(2_500_000)
    const path = join(root, 'source')
    writeFileSync(path, data)
    const want = sha(data)
    expect(
      (await BlobStore.open(join(root, '1')).put(Readable.from([data.subarray(0, 7), data.subarray(7)]))).sha256,
    ).toBe(want)
    expect((await BlobStore.open(join(root, '2')).put({ path })).sha256).toBe(want)
    expect((await BlobStore.open(join(root, '3')).put(data)).sha256).toBe(want)
    for (const name of ['1', '2', '3']) {
      const stored = join(root, name, want.slice(0, 2), `${want}.bin`)
      expect(readFileSync(stored).equals(data)).toBe(true)
    }
  })

  it('makes no directory before the first put, and private ones then', async () => {
    const store = open()
    expect(await store.totalBytes()).toBe(0)
    expect(await store.sweep()).toEqual({ evicted: 0, freed: 0, overBudgetBytes: 0 })
    expect(await store.has('0'.repeat(64))).toBe(false)
    expect(existsSync(dir)).toBe(false)
    const { path } = await store.put(Buffer.from('x'))
    expect(statSync(dir).mode & 0o777).toBe(0o700)
    expect(statSync(join(path, '..')).mode & 0o777).toBe(0o700)
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  it('leaves the file alone when the same bytes come again, touches its mtime and keeps the first media type', async () => {
    const store = open()
    const first = await store.put(Buffer.from('same'), 'text/plain')
    const inode = statSync(first.path).ino
    fs.utimesSync(first.path, 1000, 1000)
    for (const source of [Buffer.from('same'), Readable.from([Buffer.from('same')])]) {
      expect(await store.put(source, 'image/png')).toEqual(first)
    }
    expect(statSync(first.path).ino).toBe(inode)
    expect(statSync(first.path).mtimeMs).toBeGreaterThan(Date.now() - 60_000)
    expect(filesBelow(dir)).toHaveLength(2)
  })

  it('writes once when the same bytes are put many times at once', async () => {
    const heard: BlobInfo[] = []
    const store = open({ onPut: (blob) => heard.push(blob) })
    const data = randomBytes(10_000)
    const puts = Array.from({ length: 40 }, (_, index) =>
      store.put(index % 2 === 0 ? data : Readable.from([data]), `type/${index}`),
    )
    const types = new Set((await Promise.all(puts)).map((info) => info.mediaType))
    expect(types.size).toBe(1)
    expect(heard).toHaveLength(1)
    expect(filesBelow(dir)).toHaveLength(2)
  })

  it('replaces a copy of another size whole, because it can only be a torn one', async () => {
    const store = open()
    const { path } = await store.put(Buffer.from('whole content'))
    writeFileSync(path, 'whole')
    await store.put(Buffer.from('whole content'))
    expect(readFileSync(path, 'utf8')).toBe('whole content')
  })

  it('never rewrites a whole .meta, also where the blob itself is gone', async () => {
    const store = open()
    const { path, sha256 } = await store.put(Buffer.from('x'), 'a/b')
    const meta = path.replace(/bin$/, 'meta')
    const before = statSync(meta, { bigint: true })
    for (const source of [Buffer.from('x'), Readable.from([Buffer.from('x')])]) {
      fs.unlinkSync(path)
      expect((await store.put(source, 'c/d')).mediaType).toBe('a/b')
    }
    expect((await store.get(sha256)).mediaType).toBe('a/b')
    const after = statSync(meta, { bigint: true })
    expect([after.ino, after.mtimeNs]).toEqual([before.ino, before.mtimeNs])
    expect(filesBelow(dir)).toHaveLength(2)
  })

  it.each(['missing', 'torn', 'of another size'])('makes the .meta again when it is %s', async (state) => {
    const store = open()
    const { path } = await store.put(Buffer.from('x'), 'a/b')
    const meta = path.replace(/bin$/, 'meta')
    fs.unlinkSync(meta)
    if (state === 'torn') writeFileSync(meta, 'a/')
    if (state === 'of another size') writeFileSync(meta, 'a/b\n99\n')
    expect((await store.put(Buffer.from('x'), 'c/d')).mediaType).toBe('c/d')
    expect(readFileSync(meta, 'utf8')).toBe('c/d\n1\n')
    expect(filesBelow(dir)).toHaveLength(2)
  })

  it('makes its directories again when somebody removed them', async () => {
    const store = open()
    const { path } = await store.put(Buffer.from('x'))
    rmSync(dir, { recursive: true })
    await store.put(Buffer.from('x'))
    await store.put(Readable.from([Buffer.from('y')]))
    expect(readFileSync(path, 'utf8')).toBe('x')
  })

  it('refuses a media type that would forge a line, before it writes anything', async () => {
    await expect(open().put(Buffer.from('x'), 'a\n9')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(existsSync(dir)).toBe(false)
  })

  it('refuses bytes that are not the ones the caller expects, and keeps nothing of them', async () => {
    const store = open()
    const sha256 = sha(Buffer.from('other'))
    for (const source of [Buffer.from('x'), Readable.from([Buffer.from('x')])]) {
      await expect(store.put(source, '', { sha256 })).rejects.toMatchObject({
        code: 'CORRUPT',
        sha256,
        actualSha256: sha(Buffer.from('x')),
      })
    }
    expect(filesBelow(dir)).toEqual([])
    await expect(store.put(Buffer.from('x'), '', { sha256: 'nonsense' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
  })

  it('refuses a source that is no source', async () => {
    for (const bad of [undefined, null, 'text', 5, {}, []]) {
      await expect(open().put(bad as Uint8Array)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
    await expect(open().put(Readable.from([{ no: 'bytes' }]))).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(filesBelow(dir)).toEqual([])
  })

  it('does not write through a link planted in place of a shard', async () => {
    const outside = join(root, 'outside')
    mkdirSync(outside)
    mkdirSync(dir, { recursive: true })
    const data = Buffer.from('secret')
    fs.symlinkSync(outside, blobPaths(dir, sha(data)).shard)
    await expect(open().put(data)).rejects.toMatchObject({ code: 'PRECONDITION' })
    await expect(open().put(Readable.from([data]))).rejects.toMatchObject({ code: 'PRECONDITION' })
    expect(readdirSync(outside)).toEqual([])
    expect(filesBelow(dir).filter((name) => name.startsWith('.nexus-tmp-'))).toEqual([])
  })

  it.each(['the store', 'the shard'])(
    'reads, writes and removes nothing through a link in place of %s',
    async (where) => {
      const data = Buffer.from('secret')
      const { shard } = blobPaths(dir, sha(data))
      const outside = join(root, 'outside')
      const theirs = BlobStore.open(join(outside, 'blobs'))
      const { path, sha256 } = await theirs.put(data, 'a/b')
      const temp = join(path, '..', '.nexus-tmp-old')
      writeFileSync(temp, 'x')
      fs.utimesSync(temp, 1, 1)
      const link = where === 'the store' ? dir : shard
      mkdirSync(join(link, '..'), { recursive: true })
      fs.symlinkSync(where === 'the store' ? join(outside, 'blobs') : join(path, '..'), link)
      const before = [filesBelow(outside), statSync(path).mtimeMs]

      const store = open({ byteBudget: 0 })
      for (const read of [store.get(sha256), store.open(sha256), store.stat(sha256), store.verify(sha256)]) {
        await expect(read).rejects.toMatchObject({ code: 'NOT_FOUND' })
      }
      expect(await store.has(sha256)).toBe(false)
      expect(await store.delete(sha256)).toBe(false)
      expect(await store.totalBytes()).toBe(0)
      expect(await store.sweep()).toMatchObject({ evicted: 0 })
      for (const source of [data, Readable.from([data])]) {
        await expect(store.put(source)).rejects.toMatchObject({ code: 'PRECONDITION' })
      }
      await store.flush()
      expect([filesBelow(outside), statSync(path).mtimeMs]).toEqual(before)
    },
  )

  it('writes into the directory it opened, whatever takes its name meanwhile', async () => {
    const data = Buffer.from('secret')
    const { shard } = blobPaths(dir, sha(data))
    const outside = join(root, 'outside')
    mkdirSync(outside)
    let swapped = false
    const store = open({
      failpoint: (name) => {
        if (name !== 'blobs:temp-created' || swapped) return
        swapped = true
        fs.renameSync(shard, join(root, 'moved'))
        fs.symlinkSync(outside, shard)
      },
    })
    await store.put(data, 'a/b')
    expect(swapped).toBe(true)
    expect(readdirSync(outside)).toEqual([])
    expect(filesBelow(join(root, 'moved')).toSorted()).toEqual([`${sha(data)}.bin`, `${sha(data)}.meta`])
  })

  it('handles a thousand puts handed over in one go, without holding up the event loop for all of them', async () => {
    const store = open({ fsync: false })
    let turns = 0
    let counting = true
    const count = (): void => {
      turns++
      if (counting) setImmediate(count)
    }
    setImmediate(count)
    await Promise.all(Array.from({ length: 1000 }, (_, index) => store.put(Buffer.from(`blob ${index}`))))
    counting = false
    expect(turns).toBeGreaterThan(5)
    expect(filesBelow(dir)).toHaveLength(2000)
  })

  it('leaves the event loop its turns when puts follow each other one by one', async () => {
    const store = open({ fsync: false })
    let turns = 0
    const count = (): void => void (turns++, (handle = setImmediate(count)))
    let handle = setImmediate(count)
    for (let index = 0; index < 500; index++) await store.put(Buffer.from(`blob ${index}`))
    clearImmediate(handle)
    expect(turns).toBeGreaterThan(2)
  })
})

describe('put of a stream or file', () => {
  it('passes the error of the stream on as it is and keeps nothing', async () => {
    const error = Object.assign(new Error('upstream'), { code: 'ECONNRESET' })
    const source = new Readable({
      read() {
        this.push(Buffer.alloc(1000))
        this.destroy(error)
      },
    })
    await expect(open().put(source)).rejects.toBe(error)
    expect(filesBelow(dir)).toEqual([])
  })

  it('rejects with the reason of the signal although the stream never yields again', async () => {
    const store = open()
    const source = new Readable({ read: () => undefined })
    source.push(Buffer.from('begin'))
    const controller = new AbortController()
    const put = store.put(source, '', { signal: controller.signal })
    setImmediate(() => controller.abort('enough'))
    await expect(put).rejects.toBe('enough')
    expect(source.destroyed).toBe(true)
    expect(filesBelow(dir)).toEqual([])
    await expect(store.put(Buffer.from('x'), '', { signal: AbortSignal.abort('no') })).rejects.toBe('no')
  })

  it('does not wait for the writer of a FIFO', async () => {
    const path = join(root, 'fifo')
    execFileSync('mkfifo', [path])
    await expect(open().put({ path })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  it('names a file that is missing or is a directory', async () => {
    await expect(open().put({ path: join(root, 'none') })).rejects.toMatchObject({
      code: 'NOT_FOUND',
      key: join(root, 'none'),
    })
    await expect(open().put({ path: root })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(filesBelow(dir)).toEqual([])
  })

  it('takes of a file that grows what it had at the start', async () => {
    const path = join(root, 'log')
    writeFileSync(path, 'one\n')
    const growing = {
      ...fs,
      read: ((fd: number, ...rest: unknown[]) => {
        fs.appendFileSync(path, 'more\n')
        return (fs.read as (...args: unknown[]) => void)(fd, ...rest)
      }) as typeof fs.read,
    }
    const { size } = await open({ fs: growing }).put({ path })
    expect(size).toBe(4)
  })
})

describe('reading', () => {
  it('finds a blob by digest and by uri', async () => {
    const store = open()
    const { sha256, uri } = await store.put(Buffer.from('x'), 'a/b')
    for (const name of [sha256, uri]) {
      expect(await store.has(name)).toBe(true)
      expect((await store.get(name)).data.toString()).toBe('x')
      expect(await store.stat(name)).toMatchObject({ sha256, uri, mediaType: 'a/b', size: 1 })
      expect((await buffer(await store.open(name))).toString()).toBe('x')
    }
  })

  it('says which blob is missing', async () => {
    const store = open()
    const sha256 = 'f'.repeat(64)
    for (const miss of [store.get(sha256), store.open(blobUri(sha256)), store.stat(sha256), store.verify(sha256)]) {
      await expect(miss).rejects.toMatchObject({ name: 'BlobNotFoundError', code: 'NOT_FOUND', sha256 })
    }
    expect(await store.has(sha256)).toBe(false)
    expect(await store.delete(sha256)).toBe(false)
  })

  it('refuses names that are no digest, and touches nothing', async () => {
    const store = open()
    for (const bad of ['../../etc/passwd', '', 'ab', `${'a'.repeat(62)}/.`, 'A'.repeat(64)]) {
      for (const call of [store.get(bad), store.open(bad), store.stat(bad), store.has(bad), store.delete(bad)]) {
        await expect(call).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      }
    }
  })

  it('reads a blob without a .meta, or with a torn one, with an empty media type', async () => {
    const store = open()
    const { sha256, path } = await store.put(Buffer.from('x'), 'a/b')
    const meta = path.replace(/bin$/, 'meta')
    writeFileSync(meta, '')
    expect((await store.get(sha256)).mediaType).toBe('')
    fs.unlinkSync(meta)
    expect((await store.get(sha256, { verify: true })).mediaType).toBe('')
    expect((await store.stat(sha256)).mediaType).toBe('')
  })

  it('makes a blob the most recently used when it is read', async () => {
    const store = open({ clock: { now: () => 5_000_000 } })
    const { sha256, path } = await store.put(Buffer.from('x'))
    for (const use of [
      () => store.get(sha256),
      () => store.stat(sha256),
      async () => (await store.open(sha256)).destroy(),
    ]) {
      fs.utimesSync(path, 1, 1)
      await use()
      expect(statSync(path).mtimeMs).toBe(5_000_000)
    }
  })

  it('does not follow a link and does not wait for a FIFO in place of a blob', async () => {
    const store = open()
    const secret = join(root, 'secret')
    writeFileSync(secret, 'secret')
    const { sha256, path } = await store.put(Buffer.from('x'))
    fs.unlinkSync(path)
    fs.symlinkSync(secret, path)
    await expect(store.get(sha256)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    fs.unlinkSync(path)
    execFileSync('mkfifo', [path])
    await expect(store.get(sha256)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(await store.has(sha256)).toBe(false)
  })

  it('still streams a blob that is evicted meanwhile', async () => {
    const store = open()
    const data = randomBytes(1_000_000)
    const { sha256 } = await store.put(data)
    const stream = await store.open(sha256)
    await store.delete(sha256)
    expect((await buffer(stream)).equals(data)).toBe(true)
  })
})

describe('verification', () => {
  it('reports bytes that are not what the name says, with both digests', async () => {
    const store = open()
    const { sha256, path } = await store.put(Buffer.from('right'))
    expect(await store.verify()).toEqual({ blobs: 1, bytes: 5 })
    writeFileSync(path, 'wrong')
    const corrupt = { name: 'BlobCorruptError', code: 'CORRUPT', sha256, actualSha256: sha(Buffer.from('wrong')) }
    await expect(store.get(sha256, { verify: true })).rejects.toMatchObject(corrupt)
    await expect(store.verify(sha256)).rejects.toMatchObject(corrupt)
    await expect(store.verify()).rejects.toMatchObject(corrupt)
    expect((await store.get(sha256)).data.toString()).toBe('wrong')
  })

  it('names every corrupt blob of the store in one error', async () => {
    const store = open()
    const blobs = await Promise.all(['a', 'b', 'c'].map((text) => store.put(Buffer.from(text))))
    for (const { path } of blobs.slice(0, 2)) writeFileSync(path, '!')
    const error = await store.verify().catch((reason: unknown) => reason)
    expect(isNexusError(error, 'CORRUPT')).toBe(true)
    const named = (error as { mismatches: { sha256: string }[] }).mismatches.map((one) => one.sha256)
    expect(named.toSorted()).toEqual(
      blobs
        .slice(0, 2)
        .map((blob) => blob.sha256)
        .toSorted(),
    )
  })

  it('looks at the bytes by itself when the size is not the one in .meta', async () => {
    const store = open()
    const { sha256, path } = await store.put(Buffer.from('whole'))
    fs.truncateSync(path, 3)
    await expect(store.get(sha256)).rejects.toMatchObject({ code: 'CORRUPT' })
  })
})

describe('onPut', () => {
  it('hears of new blobs only, once they are on disk', async () => {
    const heard: string[] = []
    const store = open({ onPut: (blob) => heard.push(readFileSync(blob.path, 'utf8')) })
    await store.put(Buffer.from('a'))
    await store.put(Buffer.from('a'))
    await store.put(Readable.from([Buffer.from('b')]))
    await store.put(Buffer.from('c'), '', { announce: false })
    expect(heard).toEqual(['a', 'b'])
  })

  it('never fails the put', async () => {
    const warn = vi.fn<(fields: Record<string, unknown>, message: string) => void>()
    const store = open({
      logger: { warn },
      onPut: () => {
        throw new Error('queue full')
      },
    })
    const { sha256 } = await store.put(Buffer.from('a'))
    expect(await store.has(sha256)).toBe(true)
    expect(warn).toHaveBeenCalledOnce()
  })
})

describe('onMiss', () => {
  it('repairs get, open and stat, with one call for all who miss the blob at once', async () => {
    const data = Buffer.from('from the store')
    const sha256 = sha(data)
    let calls = 0
    const heard: string[] = []
    const store: BlobStore = open({
      onPut: (blob) => heard.push(blob.sha256),
      onMiss: async (missing) => {
        calls++
        await store.put(data, 'a/b', { sha256: missing, announce: false })
        return true
      },
    })
    const [content, stat, stream] = await Promise.all([store.get(sha256), store.stat(sha256), store.open(sha256)])
    expect(content.data.equals(data)).toBe(true)
    expect(stat.mediaType).toBe('a/b')
    expect((await buffer(stream)).equals(data)).toBe(true)
    expect(calls).toBe(1)
    expect(heard).toEqual([])
    expect(await store.has(sha256)).toBe(true)
  })

  it('is a plain miss when nothing could be fetched, and asks again the next time', async () => {
    let calls = 0
    const store = open({ onMiss: () => Promise.resolve(++calls < 0) })
    await expect(store.get('0'.repeat(64))).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await expect(store.get('0'.repeat(64))).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(calls).toBe(2)
  })

  it('tells an outage from a miss', async () => {
    const outage = new NexusError('UNAVAILABLE', 'no route')
    await expect(open({ onMiss: () => Promise.reject(outage) }).get('0'.repeat(64))).rejects.toBe(outage)
    const raw = Object.assign(new Error('x'), { code: 'ECONNREFUSED' })
    await expect(open({ onMiss: () => Promise.reject(raw) }).get('0'.repeat(64))).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      cause: raw,
    })
  })

  it('verifies what was fetched before anyone uses it', async () => {
    const sha256 = sha(Buffer.from('right'))
    const paths = blobPaths(dir, sha256)
    const store = open({
      onMiss: () => {
        mkdirSync(paths.shard, { recursive: true })
        writeFileSync(paths.bin, 'wrong')
        return Promise.resolve(true)
      },
    })
    await expect(store.get(sha256)).rejects.toMatchObject({ code: 'CORRUPT', sha256 })
  })

  it('is not asked by has', async () => {
    const store = open({ onMiss: () => Promise.reject(new Error('asked')) })
    expect(await store.has('0'.repeat(64))).toBe(false)
  })
})

describe('the rest', () => {
  it('adds up the bytes of all blobs', async () => {
    const store = open()
    await store.put(Buffer.alloc(1000))
    await store.put(Buffer.alloc(500))
    await store.put(Buffer.alloc(500))
    writeFileSync(join(dir, 'stranger.bin'), 'x')
    expect(await store.totalBytes()).toBe(1500)
  })

  it('keeps the .meta of a blob that is held elsewhere, so that it comes back with its media type', async () => {
    const store = open({ byteBudget: 0, canEvict: () => true })
    for (const remove of [(one: string) => store.delete(one), () => store.sweep()]) {
      const { sha256, path } = await store.put(Buffer.from('same bytes'), 'image/png')
      await remove(sha256)
      expect(existsSync(path)).toBe(false)
      fs.utimesSync(path.replace(/bin$/, 'meta'), 1, 1)
      await store.sweep()
      expect((await store.put(Buffer.from('same bytes'), 'text/plain')).mediaType).toBe('image/png')
      expect(readFileSync(path.replace(/bin$/, 'meta'), 'utf8')).toBe('image/png\n10\n')
    }
  })

  it.each(['get', 'stat', 'open', 'put'] as const)(
    'removes what killed runs left when all it does is %s',
    async (use) => {
      const { sha256, path } = await open().put(Buffer.from('x'))
      const temps = [join(dir, '.nexus-tmp-0123456789abcdef'), join(path, '..', '.nexus-tmp-999999-1-0123456789abcdef')]
      for (const temp of temps) {
        writeFileSync(temp, 'x')
        fs.utimesSync(temp, 1, 1)
      }
      const store = open()
      if (use === 'put') await store.put(Buffer.from('x'))
      else if (use === 'open') (await store.open(sha256)).destroy()
      else await store[use](sha256)
      await store.flush()
      expect(temps.map((temp) => existsSync(temp))).toEqual([false, false])
      expect((await store.get(sha256)).data.toString()).toBe('x')
    },
  )

  it('deletes a blob with its .meta, and takes it again afterwards', async () => {
    const store = open()
    const { sha256, uri } = await store.put(Buffer.from('x'), 'a/b')
    expect(await store.delete(uri)).toBe(true)
    expect(filesBelow(dir)).toEqual([])
    expect((await store.put(Buffer.from('x'), 'c/d')).mediaType).toBe('c/d')
    expect(await store.has(sha256)).toBe(true)
  })

  it('refuses a budget that is no number of bytes', () => {
    expect(() => open({ byteBudget: -1 })).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    expect(() => open({ byteBudget: Number.NaN })).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })

  it('keeps two stores on one directory apart from each other', async () => {
    const [one, two] = [open(), open()]
    const data = Array.from({ length: 50 }, (_, index) => Buffer.from(`blob ${index % 25}`))
    await Promise.all(data.map((bytes, index) => (index < 25 ? one : two).put(bytes)))
    expect(await one.verify()).toMatchObject({ blobs: 25 })
  })

  it('reads the .meta it would write itself', () => {
    expect(encodeMeta('', 0)).toBe('\n0\n')
  })
})
