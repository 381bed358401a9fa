import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ObjectStore } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { S3Backend } from '../src/driver.ts'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'

let test: EmulatedBucket

beforeEach(async () => {
  test = await openEmulatedBucket()
})

afterEach(() => test.remove())

const isGet = ({ operation }: { operation: string }): boolean => operation === 'GetObject'
const CONTENT = Buffer.alloc(3_000_000, 'nexus')

async function openWithObject(options: Record<string, unknown> = {}): Promise<S3Backend> {
  await test.emulator.plant(test.bucket, 's/a', CONTENT)
  return test.open({ max_attempts: 2, ...options })
}

describe('a failed download', () => {
  it('leaves the existing local file as it was when the object is missing', async () => {
    const store = new ObjectStore(await openWithObject(), { name: 's3' })
    const path = test.file('precious')
    await expect(store.get('s/missing', path)).rejects.toMatchObject({ code: 'NOT_FOUND', key: 's/missing' })
    expect(readFileSync(path, 'utf8')).toBe('precious')
  })

  it('leaves it when the body ends early each time, and says so', async () => {
    const store = new ObjectStore(await openWithObject(), { name: 's3' })
    test.emulator.faults.add({ fault: { kind: 'download-reset', afterBytes: 100_000 }, on: isGet })
    const path = test.file('precious')
    await expect(store.get('s/a', path)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(readFileSync(path, 'utf8')).toBe('precious')
    expect(readdirSync(test.directory).filter((name) => name.startsWith('.nexus-tmp'))).toEqual([])
  })

  it('is noticed in hydration when short content comes with success', async () => {
    const backend = await openWithObject()
    test.emulator.faults.add({ fault: { kind: 'download-short', bytes: 1000 }, on: isGet })
    const destination = test.freshPath()
    mkdirSync(destination)
    // The store declares the short size, so the listing is all there is to tell.
    await expect(backend.hydrate('s', destination)).rejects.toThrow(/s\/a/)
    expect(readdirSync(destination)).toEqual([])
  })
})

describe('downloads over a bad connection', () => {
  it.each([
    ['reset', { kind: 'download-reset', afterBytes: 1_000_000 }],
    ['stalled', { kind: 'download-stall', afterBytes: 1_000_000 }],
    ['lost before the answer', { kind: 'lost-answer' }],
  ] as const)('arrive whole when the first was %s', async (_name, fault) => {
    const backend = await openWithObject({ idle_timeout_ms: 300 })
    test.emulator.faults.add({ fault, on: isGet, times: 1 })
    const path = test.freshPath()
    const seen: number[] = []
    await backend.get('s/a', path, { onProgress: ({ bytes }) => seen.push(bytes) })
    expect(readFileSync(path).equals(CONTENT)).toBe(true)
    expect(test.emulator.faults.struck(fault.kind)).toBe(1)
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
  })

  it('end within the deadline when a body stalls, and free their sockets', async () => {
    const backend = await openWithObject({ concurrency: 2 })
    const store = new ObjectStore(backend, { name: 's3', deadlines: { idleMs: 200, baseMs: 200 } })
    const drop = test.emulator.faults.add({ fault: { kind: 'download-stall', afterBytes: 1_000 }, on: isGet })
    const paths = Array.from({ length: 5 }, () => test.freshPath())
    const outcomes = await Promise.allSettled(paths.map((path) => store.get('s/a', path)))
    for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: { code: 'UNAVAILABLE' } })
    drop()
    await backend.get('s/a', test.freshPath())
  })

  it.each(['when_required', 'when_supported'])(
    'stop at once when the caller aborts in a stall (%s)',
    async (checksums) => {
      const backend = await test.open({ checksums, concurrency: 1 })
      await backend.put('s/a', test.file(CONTENT))
      test.emulator.faults.add({ fault: { kind: 'download-stall', afterBytes: 100_000 }, on: isGet, times: 1 })
      const abort = new AbortController()
      const reason = new Error('enough')
      const onProgress = ({ bytes }: { bytes: number }): void => {
        // What has arrived is taken; then there is nothing to wake anybody but the abort.
        if (bytes >= 100_000) setImmediate(() => abort.abort(reason))
      }
      await expect(backend.get('s/a', test.freshPath(), { signal: abort.signal, onProgress })).rejects.toBe(reason)
      await backend.get('s/a', test.freshPath())
    },
  )
})

describe('downloads', () => {
  it('verify the checksum that the store sends', async () => {
    const backend = await test.open({ checksums: 'when_supported', max_attempts: 2 })
    await backend.put('s/a', test.file('content'))
    const headers = test.emulator.stat(test.bucket, 's/a')?.headers ?? {}
    expect(headers['x-amz-checksum-crc32']).toBeDefined()
    headers['x-amz-checksum-crc32'] = 'AAAAAA=='
    const path = test.file('precious')
    const store = new ObjectStore(backend, { name: 's3' })
    await expect(store.get('s/a', path)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(readFileSync(path, 'utf8')).toBe('precious')
  })

  it('of a range are refused from a store that ignores ranges', async () => {
    const backend = await openWithObject()
    test.emulator.quirks.ignoresRanges = true
    const store = new ObjectStore(backend, { name: 's3' })
    await expect(store.get('s/a', test.freshPath(), { offset: 5, length: 5 })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    })
  })

  it('are readable by their owner only', async () => {
    const backend = await openWithObject()
    const path = join(test.directory, 'private')
    await backend.get('s/a', path)
    expect(statSync(path).mode & 0o077).toBe(0)
  })
})
