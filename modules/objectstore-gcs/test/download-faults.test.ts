import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { isNexusError, ObjectStore } from '@nexus/objectstore'
import { openLoopbackServer } from '@nexus/objectstore-emulators/http'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { freshDirectory, openTestBucket, type TestBucket } from './test-bucket.ts'

let bucket: TestBucket

beforeEach(async () => {
  bucket = await openTestBucket()
})

afterEach(() => bucket.remove())

const content = 'content '.repeat(100_000)

function localFile(): { directory: string; path: string } {
  const directory = freshDirectory(bucket)
  const path = join(directory, 'f')
  writeFileSync(path, 'kept')
  return { directory, path }
}

function downloads(): number {
  return bucket.emulator.log.filter((line) => line.startsWith('objects.download')).length
}

describe('a download that fails', () => {
  it.each([
    ['finds no object', 'status', 404, 'notFound'],
    ['is refused', 'status', 403, 'forbidden'],
    ['meets an outage', 'status', 503, 'backendError'],
  ] as const)('leaves the local file as it was when it %s', async (_what, kind, status, code) => {
    const backend = await bucket.open()
    await bucket.client.plant('k', content)
    bucket.emulator.faults.add({ fault: { kind, status, code } })
    const { directory, path } = localFile()
    await expect(backend.get('k', path)).rejects.toThrow(/./)
    expect(readFileSync(path, 'utf8')).toBe('kept')
    expect(readdirSync(directory)).toEqual(['f'])
  })

  it('notices content that is short although it was called a success', async () => {
    const backend = await bucket.open()
    await bucket.client.plant('k', content)
    bucket.emulator.faults.add({ fault: { kind: 'download-short', bytes: 0 } })
    const { directory, path } = localFile()
    await expect(backend.get('k', path)).rejects.toThrow(`cut: 0 bytes arrived of ${content.length}`)
    await expect(backend.hydrate('', freshDirectory(bucket))).rejects.toThrow(/"k".*cut/)
    expect(readFileSync(path, 'utf8')).toBe('kept')
    expect(readdirSync(directory)).toEqual(['f'])
  })

  it('refuses content whose checksum keeps being another, even at the right size', async () => {
    const { path } = localFile()
    let requests = 0
    const liar = await openLoopbackServer(async (_request, response) => {
      requests++
      const about = { 'x-goog-generation': '1', 'x-goog-stored-content-length': '5' }
      response.writeHead(200, { 'x-goog-hash': 'crc32c=AAAAAA==', ...about })
      response.end('hello')
    })
    try {
      const store = new ObjectStore(await bucket.open({ endpoint: liar.url }), { name: 'gcs' })
      await expect(store.get('k', path)).rejects.toMatchObject({ code: 'CORRUPT', key: 'k' })
      expect(requests).toBe(3)
      expect(readFileSync(path, 'utf8')).toBe('kept')
    } finally {
      await liar.close()
    }
  })
})

describe('a download that breaks', () => {
  it.each(['download-reset', 'download-short'] as const)('goes on where it broke after a %s', async (kind) => {
    const backend = await bucket.open()
    await bucket.client.plant('k', content)
    const fault = kind === 'download-reset' ? { kind, afterBytes: 300_000 } : { kind, bytes: 300_000 }
    bucket.emulator.faults.add({ fault, times: 2 })
    const path = bucket.freshPath()
    const seen: number[] = []
    await backend.get('k', path, { onProgress: ({ bytes }) => seen.push(bytes) })
    expect(readFileSync(path, 'utf8') === content).toBe(true)
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
    expect(seen.at(-1)).toBe(content.length)
    expect(downloads()).toBe(3)
  })

  it.each([{}, { offset: 5, length: 500_000 }])(
    'takes all of a new object when it was replaced meanwhile: %j',
    async (range) => {
      const backend = await bucket.open()
      await bucket.client.plant('k', content)
      bucket.emulator.faults.add({ fault: { kind: 'download-stall', afterBytes: 300_000 }, times: 1 })
      const path = bucket.freshPath()
      const get = backend.get('k', path, range)
      await vi.waitFor(() => expect(bucket.emulator.faults.struck('download-stall')).toBe(1))
      const newer = 'newer '.repeat(100_000)
      await bucket.client.plant('k', newer)
      await vi.waitFor(() => expect(bucket.clock.expire(15_000)).toBe(1))
      await get
      const { offset = 0, length = newer.length } = range
      expect(readFileSync(path, 'utf8') === newer.slice(offset, offset + length)).toBe(true)
    },
  )

  it('goes on within a range', async () => {
    const backend = await bucket.open()
    await bucket.client.plant('k', content)
    bucket.emulator.faults.add({ fault: { kind: 'download-reset', afterBytes: 200_000 }, times: 1 })
    const path = bucket.freshPath()
    await backend.get('k', path, { offset: 5, length: 500_000 })
    expect(readFileSync(path, 'utf8') === content.slice(5, 500_005)).toBe(true)
  })

  it('ends at once under its signal when the body has stalled', async () => {
    const backend = await bucket.open()
    await bucket.client.plant('k', content)
    bucket.emulator.faults.add({ fault: { kind: 'download-stall', afterBytes: 1000 } })
    const { directory, path } = localFile()
    const abort = new AbortController()
    const get = backend.get('k', path, { signal: abort.signal })
    await vi.waitFor(() => expect(bucket.emulator.faults.struck('download-stall')).toBe(1))
    const reason = new Error('enough')
    abort.abort(reason)
    await expect(get).rejects.toBe(reason)
    expect(readdirSync(directory)).toEqual(['f'])
  })
})

describe('what is stored', () => {
  it('comes as it is stored when it is gzipped, not unpacked on the way', async () => {
    const backend = await bucket.open()
    const packed = gzipSync('hello')
    await bucket.client.plant('k', new Uint8Array(packed), { contentEncoding: 'gzip' })
    const path = bucket.freshPath()
    await backend.get('k', path)
    expect(readFileSync(path)).toEqual(packed)
    await backend.get('k', path, { offset: 1, length: 3 })
    expect(readFileSync(path)).toEqual(packed.subarray(1, 4))
  })
})

describe('a missing object', () => {
  it('is told from a missing bucket, which is nobody having stored nothing', async () => {
    const backend = await bucket.open()
    const store = new ObjectStore(backend, { name: 'gcs' })
    await expect(store.get('k', bucket.freshPath())).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await store.delete('k')
    bucket.emulator.deleteBucket('bucket')
    const calls = [
      () => store.get('k', bucket.freshPath()),
      () => store.delete('k'),
      () => store.list(''),
      () => store.hydrate('', bucket.freshPath()),
    ]
    for (const call of calls) {
      const error: unknown = await call().catch((thrown: unknown) => thrown)
      expect(isNexusError(error, 'PRECONDITION')).toBe(true)
      expect((error as Error).message).toContain('bucket does not exist')
    }
  })

  it.each([
    ['only says "not found"', 'Not Found'],
    ['says "no such object" of both', 'No such object: bucket/k'],
  ])('is told from a missing bucket by asking, where the store %s', async (_what, message) => {
    let listing = 404
    const vague = await openLoopbackServer(async (request, response) => {
      const list = request.url?.includes('maxResults') === true
      const refusal = { error: { code: 404, message: list ? 'The specified bucket does not exist.' : message } }
      const found = list && listing === 200
      response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' })
      response.end(JSON.stringify(found ? { kind: 'storage#objects' } : refusal))
    })
    try {
      const store = new ObjectStore(await bucket.open({ endpoint: vague.url }), { name: 'gcs' })
      await expect(store.get('k', bucket.freshPath())).rejects.toMatchObject({ code: 'PRECONDITION' })
      await expect(store.delete('k')).rejects.toMatchObject({ code: 'PRECONDITION' })
      listing = 200
      await expect(store.get('k', bucket.freshPath())).rejects.toMatchObject({ code: 'NOT_FOUND' })
      await store.delete('k')
    } finally {
      await vague.close()
    }
  })

  it('costs one more request, since the store answers for a missing bucket alike', async () => {
    const backend = await bucket.open()
    for (let n = 0; n < 2; n++) await expect(backend.get('k', bucket.freshPath())).rejects.toThrow('does not exist')
    expect(bucket.emulator.log).toEqual(['objects.download k', 'objects.list ', 'objects.download k', 'objects.list '])
  })

  it('that is answered 403, as it is without the right to list, is an access error', async () => {
    const store = new ObjectStore(await bucket.open(), { name: 'gcs' })
    bucket.emulator.faults.add({ fault: { kind: 'status', status: 403, code: 'forbidden' } })
    await expect(store.get('k', bucket.freshPath())).rejects.toMatchObject({ code: 'PERMISSION' })
    await expect(store.hydrate('s', bucket.freshPath())).rejects.toMatchObject({ code: 'PERMISSION' })
  })
})
