import { readFileSync } from 'node:fs'
import { ObjectStore } from '@nexus/objectstore'
import { openCompressingProxy, openLoopbackServer } from '@nexus/objectstore-emulators/http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { freshDirectory, openTestBucket, type TestBucket } from './test-bucket.ts'

let bucket: TestBucket
const closing: (() => Promise<void>)[] = []

beforeEach(async () => {
  bucket = await openTestBucket()
})

afterEach(async () => {
  await bucket.remove()
  await Promise.all(closing.splice(0).map((close) => close()))
})

const CONTENT = Buffer.alloc(100_000, 'nexus')
const MIB = 1024 * 1024

describe('a proxy that compresses what nobody asked it to', () => {
  it.each(['chunked', 'declared', 'weak-etag'] as const)(
    'gives the stored bytes, whole and in ranges, and listings (%s)',
    async (compression) => {
      const proxy = await openCompressingProxy(bucket.emulator.url, compression)
      closing.push(() => proxy.close())
      const backend = await bucket.open({ endpoint: proxy.url })
      for (let i = 0; i < 20; i++) await backend.put(`s/${i}`, bucket.file(CONTENT))
      expect(await backend.list('s')).toHaveLength(20)
      const path = bucket.freshPath()
      await backend.get('s/1', path)
      expect(readFileSync(path).equals(CONTENT)).toBe(true)
      await backend.get('s/1', path, { offset: 5, length: 50_000 })
      expect(readFileSync(path).equals(CONTENT.subarray(5, 50_005))).toBe(true)
      await backend.hydrate('s', freshDirectory(bucket))
    },
  )

  it('with an encoding that is not known is named, and nothing is called damaged', async () => {
    const proxy = await openCompressingProxy(bucket.emulator.url, 'declared', 'zstd')
    closing.push(() => proxy.close())
    const store = new ObjectStore(await bucket.open({ endpoint: proxy.url }), { name: 'gcs' })
    await store.put('k', bucket.file(CONTENT))
    await expect(store.get('k', bucket.freshPath())).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('Content-Encoding') as string,
    })
  })
})

describe('an answer of another range than was asked for', () => {
  it('is refused', async () => {
    const store = new ObjectStore(await bucket.open(), { name: 'gcs' })
    await bucket.client.plant('k', CONTENT)
    bucket.emulator.quirks.shiftsRanges = 3
    const path = bucket.file('precious')
    await expect(store.get('k', path, { offset: 5, length: 10 })).rejects.toMatchObject({ code: 'PRECONDITION' })
    expect(readFileSync(path, 'utf8')).toBe('precious')
  })
})

describe('an answer without the size of the object', () => {
  it('is measured by its length, and fetched again when it is short', async () => {
    bucket.emulator.quirks.omits = ['x-goog-stored-content-length', 'x-goog-hash']
    const backend = await bucket.open()
    await bucket.client.plant('k', CONTENT)
    bucket.emulator.faults.add({ fault: { kind: 'download-reset', afterBytes: 50_000 }, times: 1 })
    const path = bucket.freshPath()
    await backend.get('k', path)
    expect(readFileSync(path).equals(CONTENT)).toBe(true)
  })
})

describe('a listing with a size that is none', () => {
  it.each(['', '-5', 'many', '1.5'])('is refused (%j)', async (size) => {
    const store = new ObjectStore(await bucket.open(), { name: 'gcs' })
    await bucket.client.plant('k', CONTENT)
    bucket.emulator.quirks.listsSizesAs = size
    await expect(store.list('')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

describe('a page of a portal', () => {
  it('that says yes to a delete is no success', async () => {
    const portal = await openLoopbackServer(async (request, response) => {
      request.resume()
      response.writeHead(200, { 'content-type': 'text/html' })
      response.end('<html>Welcome</html>')
    })
    closing.push(() => portal.close())
    const store = new ObjectStore(await bucket.open({ endpoint: portal.url }), { name: 'gcs' })
    await expect(store.delete('k')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

describe('names one level below a prefix', () => {
  it('are told page by page without the objects below them', async () => {
    await bucket.remove()
    bucket = await openTestBucket({ pageSize: 2 })
    const backend = await bucket.open({ prefix: 'p' })
    for (const key of ['s/a/1', 's/a/2', 's/b c/1', 's/d', 's/e+f/g/h', 't/x', 's-x/y']) {
      await bucket.client.plant(`p/${key}`, 'x')
    }
    await bucket.client.plant('p/s/', '')
    expect((await backend.listNames('s')).toSorted()).toEqual(['a', 'b c', 'd', 'e+f'])
    expect((await backend.listNames('')).toSorted()).toEqual(['s', 's-x', 't'])
    expect(await backend.listNames('none')).toEqual([])
  })
})

describe("a store that is not the vendor's", () => {
  it('and ignores the condition of a create is found out, and nothing is left of the probe', async () => {
    bucket.emulator.quirks.ignoresConditions = true
    const store = new ObjectStore(await bucket.open(), { name: 'gcs' })
    for (let i = 0; i < 2; i++) {
      await expect(store.putIfAbsent('k', bucket.file('x'))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    }
    expect(await bucket.client.keys()).toEqual([])
  })

  it('and takes a first chunk for the whole object is named, and half an object does not stay', async () => {
    bucket.emulator.quirks.takesChunksForWhole = true
    const options = { resumable_threshold: MIB, chunk_size: MIB }
    const store = new ObjectStore(await bucket.open({ options }), { name: 'gcs' })
    await expect(store.put('k', bucket.file(Buffer.alloc(3 * MIB, 'x')))).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('resumable_threshold') as string,
    })
    expect(await bucket.client.keys()).toEqual([])
  })
})
