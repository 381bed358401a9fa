import { closeSync, openSync, truncateSync, writeSync } from 'node:fs'
import { openLoopbackServer } from '@nexus/objectstore-emulators/http'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Crc32c } from '@nexus/objectstore'
import { base64Of } from '../src/transfer/crc32c.ts'
import { openTestBucket, type TestBucket } from './test-bucket.ts'

const KIB = 1024
const CHUNK = 256 * KIB
const chunked = { options: { resumable_threshold: 1, chunk_size: CHUNK } }

let bucket: TestBucket

beforeEach(async () => {
  bucket = await openTestBucket()
})

afterEach(() => bucket.remove())

const onInsert = ({ operation }: { operation: string }): boolean => operation === 'objects.insert'
const onChunk = ({ operation }: { operation: string }): boolean => operation === 'uploads.chunk'

function pattern(bytes: number): Buffer {
  return Buffer.from(Uint8Array.from({ length: bytes }, (_, i) => (i * 31 + (i >> 8)) & 0xff))
}

function count(operation: string): number {
  return bucket.emulator.log.filter((line) => line.startsWith(operation)).length
}

// Not by toEqual, which takes seconds for a megabyte.
async function expectStored(content: Buffer): Promise<void> {
  expect((await bucket.client.get('k'))?.equals(content)).toBe(true)
}

describe('an upload that meets faults', () => {
  it.each([0, 1, 3 * CHUNK + 5])('of %i bytes gets in whole through 503s on each of its requests', async (bytes) => {
    const backend = await bucket.open(chunked)
    const content = pattern(bytes)
    const fault = { kind: 'status', status: 503, code: 'backendError' } as const
    bucket.emulator.faults.add({ fault, times: 2, perKey: true, on: onInsert })
    bucket.emulator.faults.add({ fault, times: 2, perKey: true, on: onChunk })
    bucket.emulator.faults.add({ fault, times: 1, on: ({ operation }) => operation === 'uploads.start' })
    await backend.put('k', bucket.file(content))
    await expectStored(content)
    expect(bucket.emulator.faults.struck('status')).toBeGreaterThanOrEqual(2)
  })

  it('goes on where it broke when a chunk is cut, and its progress only grows', async () => {
    const backend = await bucket.open({ options: { resumable_threshold: 1, chunk_size: 4 * CHUNK } })
    const content = pattern(7 * CHUNK)
    bucket.emulator.faults.add({ fault: { kind: 'upload-reset', afterBytes: 2 * CHUNK + 7 }, times: 1, on: onChunk })
    const seen: number[] = []
    await backend.put('k', bucket.file(content), { onProgress: ({ bytes }) => seen.push(bytes) })
    await expectStored(content)
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
    expect(bucket.emulator.faults.struck('upload-reset')).toBe(1)
    expect(count('uploads.start')).toBe(1)
    expect(count('uploads.status')).toBe(1)
  })

  it('learns from the store that it is done when the last answer was lost', async () => {
    const backend = await bucket.open(chunked)
    bucket.emulator.faults.add({ fault: { kind: 'lost-answer' }, times: 1, after: 1, on: onChunk })
    await backend.put('k', bucket.file(pattern(2 * CHUNK)))
    await expectStored(pattern(2 * CHUNK))
    expect([count('uploads.start'), count('uploads.chunk')]).toEqual([1, 2])
  })

  it('asks for the end when everything is kept and nothing says that it is stored', async () => {
    const content = pattern(CHUNK)
    const sum = new Crc32c()
    sum.update(Buffer.from(content))
    const ranges: (string | undefined)[] = []
    const slow = await openLoopbackServer(async (request, response) => {
      for await (const _ of request);
      const range = request.headers['content-range']
      if (request.method === 'PUT') ranges.push(range)
      if (request.method === 'POST') response.writeHead(200, { location: '/session' }).end()
      else if (ranges.length < 2) response.writeHead(308, { range: `bytes=0-${CHUNK - 1}` }).end()
      else {
        const stored = { kind: 'storage#object', size: String(CHUNK), crc32c: base64Of(sum) }
        response.writeHead(200).end(JSON.stringify(stored))
      }
    })
    try {
      const backend = await bucket.open({ ...chunked, endpoint: slow.url })
      await backend.put('k', bucket.file(content))
      expect(ranges.at(-1)).toBe(`bytes */${CHUNK}`)
    } finally {
      await slow.close()
    }
  })

  it('begins anew when the store has forgotten its session', async () => {
    const backend = await bucket.open(chunked)
    bucket.emulator.faults.add({
      fault: { kind: 'status', status: 410, code: 'gone' },
      times: 1,
      after: 1,
      on: onChunk,
    })
    await backend.put('k', bucket.file(pattern(3 * CHUNK)))
    await expectStored(pattern(3 * CHUNK))
    expect(count('uploads.start')).toBe(2)
  })

  it('is repeated when its answer was lost, because the content is the same', async () => {
    const backend = await bucket.open()
    bucket.emulator.faults.add({ fault: { kind: 'lost-answer' }, times: 1, on: onInsert })
    await backend.put('k', bucket.file('content'))
    expect((await bucket.client.get('k'))?.toString()).toBe('content')
    expect(count('objects.insert')).toBe(2)
  })

  it('gives up while its caller still listens, and names what the store said', async () => {
    const backend = await bucket.open()
    bucket.emulator.faults.add({ fault: { kind: 'status', status: 503, code: 'backendError' } })
    const beganMs = bucket.clock.now()
    await expect(backend.put('k', bucket.file('x'))).rejects.toThrow(
      /objects\.insert was answered 503 backendError.*request/,
    )
    expect(bucket.clock.now() - beganMs).toBeLessThan(30_000)
  })

  it('that shrinks on the way stores nothing and blames the file', async () => {
    const backend = await bucket.open(chunked)
    const path = bucket.file(pattern(4 * CHUNK))
    const onProgress = ({ bytes }: { bytes: number }): void => {
      if (bytes === CHUNK) truncateSync(path, 10)
    }
    await expect(backend.put('k', path, { onProgress })).rejects.toMatchObject({ code: 'EIO', path })
    expect(await bucket.client.keys()).toEqual([])
  })

  it('is refused by the store when other bytes arrive than were summed, and read again', async () => {
    const backend = await bucket.open(chunked)
    const path = bucket.file(pattern(2 * CHUNK))
    let changes = 0
    const onProgress = ({ bytes }: { bytes: number }): void => {
      if (bytes === CHUNK && changes++ === 0) refill(path, 2 * CHUNK, 'new')
    }
    await backend.put('k', path, { onProgress })
    expect(changes).toBe(1)
    await expectStored(Buffer.alloc(2 * CHUNK, 'new'))
  })

  it('of a file that never rests stores nothing, and says so', async () => {
    const backend = await bucket.open(chunked)
    const path = bucket.file(pattern(2 * CHUNK))
    let changes = 0
    // The sum was taken before a session is started, the content is read after.
    bucket.emulator.faults.add({
      fault: { kind: 'latency', delayMs: 0 },
      on: ({ operation }) => {
        if (operation === 'uploads.start') refill(path, 2 * CHUNK, String(changes++))
        return false
      },
    })
    await expect(backend.put('k', path)).rejects.toMatchObject({ code: 'UNAVAILABLE', key: 'k' })
    expect(changes).toBe(3)
    expect(await bucket.client.keys()).toEqual([])
  })
})

// In place: the backend has the file open.
function refill(path: string, bytes: number, text: string): void {
  const fd = openSync(path, 'r+')
  writeSync(fd, Buffer.alloc(bytes, text), 0, bytes, 0)
  closeSync(fd)
}

describe('an upload that is given up', () => {
  it('ends at once under silence, and rejects with the reason', async () => {
    const backend = await bucket.open()
    bucket.emulator.faults.add({ fault: { kind: 'silence' }, on: onInsert })
    const abort = new AbortController()
    const put = backend.put('k', bucket.file('x'), { signal: abort.signal })
    await vi.waitFor(() => expect(bucket.emulator.faults.struck('silence')).toBe(1))
    const reason = new Error('enough')
    abort.abort(reason)
    await expect(put).rejects.toBe(reason)
    expect(count('objects.insert')).toBe(1)
  })

  it('tells the store to forget a half of it', async () => {
    const backend = await bucket.open(chunked)
    bucket.emulator.faults.add({ fault: { kind: 'upload-stall', afterBytes: 10 }, after: 1, on: onChunk })
    const abort = new AbortController()
    const put = backend.put('k', bucket.file(pattern(3 * CHUNK)), { signal: abort.signal })
    await vi.waitFor(() => expect(bucket.emulator.faults.struck('upload-stall')).toBe(1))
    abort.abort(new Error('enough'))
    await expect(put).rejects.toThrow('enough')
    await vi.waitFor(() => expect(bucket.emulator.openUploads()).toBe(0))
    expect(await bucket.client.keys()).toEqual([])
  })

  it('is made again by itself when nothing moves for too long', async () => {
    const backend = await bucket.open({ options: { idle_timeout_ms: 15_000 } })
    bucket.emulator.faults.add({ fault: { kind: 'silence' }, times: 1, on: onInsert })
    const put = backend.put('k', bucket.file('x'))
    await vi.waitFor(() => expect(bucket.emulator.faults.struck('silence')).toBe(1))
    expect(bucket.clock.expire(15_000)).toBe(1)
    await put
    expect((await bucket.client.get('k'))?.toString()).toBe('x')
  })
})
