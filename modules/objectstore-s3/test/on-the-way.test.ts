import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ObjectStore } from '@nexus/objectstore'
import { openCompressingProxy, openLoopbackServer } from '@nexus/objectstore-emulators/http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'

let test: EmulatedBucket
const closing: (() => Promise<void>)[] = []

beforeEach(async () => {
  test = await openEmulatedBucket()
})

afterEach(async () => {
  await test.remove()
  await Promise.all(closing.splice(0).map((close) => close()))
})

const CONTENT = Buffer.alloc(100_000, 'nexus')

async function proxied(...how: Parameters<typeof openCompressingProxy> extends [string, ...infer R] ? R : never) {
  const proxy = await openCompressingProxy(test.emulator.url, ...how)
  closing.push(() => proxy.close())
  return proxy.url
}

describe('a proxy that compresses what nobody asked it to', () => {
  it.each([
    ['chunked', {}],
    ['declared', {}],
    ['weak-etag', {}],
    ['declared', { checksums: 'when_supported' }],
  ] as const)('gives the stored bytes, whole and in ranges, and listings (%s, %o)', async (compression, options) => {
    const backend = await test.open(options, { endpoint: await proxied(compression) })
    for (let i = 0; i < 20; i++) await backend.put(`s/${i}`, test.file(CONTENT))
    expect(await backend.list('s')).toHaveLength(20)
    const path = test.freshPath()
    await backend.get('s/1', path)
    expect(readFileSync(path).equals(CONTENT)).toBe(true)
    await backend.get('s/1', path, { offset: 5, length: 50_000 })
    expect(readFileSync(path).equals(CONTENT.subarray(5, 50_005))).toBe(true)
    const destination = test.freshPath()
    mkdirSync(destination)
    await backend.hydrate('s', destination)
    expect(readFileSync(join(destination, '7')).equals(CONTENT)).toBe(true)
  })

  it('with an encoding that is not known is named, and nothing is called damaged', async () => {
    const backend = await test.open({}, { endpoint: await proxied('declared', 'zstd') })
    await backend.put('s/a', test.file(CONTENT))
    const store = new ObjectStore(backend, { name: 's3' })
    await expect(store.get('s/a', test.freshPath())).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('Content-Encoding') as string,
    })
  })

  it('is told from an object that was stored encoded', async () => {
    const backend = await test.open()
    await test.emulator.plant(test.bucket, 's/a', CONTENT)
    Object.assign(test.emulator.stat(test.bucket, 's/a')?.headers ?? {}, { 'content-encoding': 'gzip' })
    const path = test.freshPath()
    await backend.get('s/a', path)
    expect(readFileSync(path).equals(CONTENT)).toBe(true)
  })
})

describe('an answer of another range than was asked for', () => {
  it.each([{ offset: 5, length: 10 }, { offset: 5 }])('is refused (%o)', async (range) => {
    const backend = await test.open()
    await test.emulator.plant(test.bucket, 's/a', CONTENT)
    test.emulator.quirks.shiftsRanges = 3
    const path = test.file('precious')
    const store = new ObjectStore(backend, { name: 's3' })
    await expect(store.get('s/a', path, range)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    expect(readFileSync(path, 'utf8')).toBe('precious')
  })

  it('may be shorter where the object ends', async () => {
    const backend = await test.open()
    await test.emulator.plant(test.bucket, 's/a', '0123456789')
    const path = test.freshPath()
    await backend.get('s/a', path, { offset: 8, length: 10 })
    expect(readFileSync(path, 'utf8')).toBe('89')
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
    const store = new ObjectStore(await test.open({ max_attempts: 1 }, { endpoint: portal.url }), { name: 's3' })
    await expect(store.delete('s/a')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

describe('a listing with a size that is none', () => {
  it.each(['-5', 'many', '1.5'])('is refused (%j)', async (size) => {
    const backend = await test.open({ max_attempts: 1 })
    await test.emulator.plant(test.bucket, 's/a', CONTENT)
    test.emulator.quirks.listsSizesAs = size
    const store = new ObjectStore(backend, { name: 's3' })
    await expect(store.list('s')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

describe('names one level below a prefix', () => {
  it('are told page by page without the objects below them', async () => {
    const backend = await test.open({}, { prefix: 'p' })
    for (const key of ['s/a/1', 's/a/2', 's/b c/1', 's/d', 's/e+f/g/h', 't/x', 's-x/y']) {
      await test.emulator.plant(test.bucket, `p/${key}`, 'x')
    }
    await test.emulator.plant(test.bucket, 'p/s/', '')
    test.emulator.quirks.pageSize = 2
    expect((await backend.listNames('s')).toSorted()).toEqual(['a', 'b c', 'd', 'e+f'])
    expect((await backend.listNames('')).toSorted()).toEqual(['s', 's-x', 't'])
    expect(await backend.listNames('none')).toEqual([])
  })
})

describe('a bucket with Object Lock, which takes no upload without a checksum', () => {
  const MIB = 1024 * 1024
  const kinds = [
    ['empty', 0],
    ['small', 5],
    ['streamed', 9 * MIB],
    ['in parts', 70 * MIB],
  ] as const

  it.each(['when_supported', 'content_md5'])('stores files of every kind with checksums %s', async (checksums) => {
    test.emulator.quirks.demandsChecksums = true
    const backend = await test.open({ checksums })
    for (const [key, sizeBytes] of kinds) await backend.put(key, test.file(Buffer.alloc(sizeBytes, 'nexus')))
    expect(await backend.putIfAbsent('new', test.file('x'))).toBe(true)
    for (const [key, sizeBytes] of kinds) expect(test.emulator.stat(test.bucket, key)?.sizeBytes).toBe(sizeBytes)
  })

  it.each(kinds)('names the option where none was set (%s)', async (key, sizeBytes) => {
    test.emulator.quirks.demandsChecksums = true
    const store = new ObjectStore(await test.open(), { name: 's3' })
    await expect(store.put(key, test.file(Buffer.alloc(sizeBytes, 'nexus')))).rejects.toMatchObject({
      code: 'PRECONDITION',
      message: expect.stringMatching(/core\.object_store\.options\.checksums to when_supported.*content_md5/) as string,
    })
  })

  it('takes the older digest from a store that refuses the newer ones', async () => {
    Object.assign(test.emulator.quirks, { demandsChecksums: true, rejectsChecksums: true })
    const backend = await test.open({ checksums: 'content_md5' })
    for (const [key, sizeBytes] of kinds) await backend.put(key, test.file(Buffer.alloc(sizeBytes, 'nexus')))
    const path = test.freshPath()
    await backend.get('streamed', path)
    expect(readFileSync(path).length).toBe(9 * MIB)
  })
})
