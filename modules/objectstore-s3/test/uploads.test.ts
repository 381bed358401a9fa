import { readFileSync, truncateSync } from 'node:fs'
import { isNexusError, ObjectStore } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'

let test: EmulatedBucket

beforeEach(async () => {
  test = await openEmulatedBucket()
})

afterEach(() => test.remove())

const isPut = ({ operation }: { operation: string }): boolean => operation === 'PutObject' || operation === 'UploadPart'

function largeFile(mib: number): string {
  const path = test.file(Buffer.from('begin'))
  truncateSync(path, mib * 1024 * 1024)
  return path
}

describe('uploads through a store that says SlowDown', () => {
  it.each([
    ['checksums as at Amazon', { checksums: 'when_supported' }],
    ['checksums when required', {}],
  ])('store files of 0 bytes, 1 byte and 20 MB whole after two refusals each (%s)', async (_name, options) => {
    const backend = await test.open(options)
    test.emulator.faults.add({
      fault: { kind: 'status', status: 503, code: 'SlowDown' },
      on: isPut,
      times: 2,
      perKey: true,
    })
    const files = [test.file(''), test.file('x'), test.file(Buffer.alloc(20_000_000, 'nexus'))]
    await Promise.all(files.map((path, index) => backend.put(`s/${index}`, path)))
    for (const [index, path] of files.entries()) {
      expect((await test.emulator.read(test.bucket, `s/${index}`))?.equals(readFileSync(path))).toBe(true)
    }
    expect(test.emulator.faults.struck('status')).toBe(6)
  })

  it('free the socket of a body that was refused while it was on its way, and say nothing on the console', async () => {
    const backend = await test.open({ concurrency: 1 })
    const rule = { kind: 'status', status: 500, code: 'InternalError' } as const
    test.emulator.faults.add({ fault: rule, on: isPut, times: 2 })
    const warn = vi.spyOn(console, 'warn')
    const startedMs = performance.now()
    await backend.put('s/a', largeFile(40))
    // The store itself drops such a connection after five seconds each.
    expect(performance.now() - startedMs).toBeLessThan(5_000)
    expect(test.emulator.stat(test.bucket, 's/a')?.sizeBytes).toBe(40 * 1024 * 1024)
    expect(warn).not.toHaveBeenCalled()
    warn.mockRestore()
  })

  it('give up as throttled when it goes on, and leave no object', async () => {
    const store = new ObjectStore(await test.open({ max_attempts: 2 }), { name: 's3' })
    test.emulator.faults.add({ fault: { kind: 'status', status: 503, code: 'SlowDown' }, on: isPut })
    await expect(store.put('a', test.file('x'))).rejects.toMatchObject({ code: 'THROTTLED', retryable: true })
    expect(test.emulator.keys(test.bucket)).toEqual([])
  })
})

describe('uploads over a bad connection', () => {
  it.each([
    ['a small file', 1],
    ['a streamed file', 12],
    ['a file in parts', 70],
  ])('store %s whole when the connection is reset in the middle', async (_name, mib) => {
    const backend = await test.open()
    test.emulator.faults.add({ fault: { kind: 'upload-reset', afterBytes: 500_000 }, on: isPut, times: 1 })
    const path = largeFile(mib)
    await backend.put('s/a', path)
    expect(test.emulator.faults.struck('upload-reset')).toBe(1)
    expect(test.emulator.stat(test.bucket, 's/a')?.sizeBytes).toBe(mib * 1024 * 1024)
    expect(test.emulator.openUploads(test.bucket)).toEqual([])
  })

  // The client waits as long as its bytes could be on their way: a second for each 256 KiB.
  it.each([
    ['a small file', 3 / 16],
    ['a streamed file', 5 / 16],
  ])('store %s when the store stops reading once', async (_name, mib) => {
    const backend = await test.open({ idle_timeout_ms: 300 })
    test.emulator.faults.add({ fault: { kind: 'upload-stall', afterBytes: 100_000 }, on: isPut, times: 1 })
    await backend.put('s/a', largeFile(mib))
    expect(test.emulator.faults.struck('upload-stall')).toBe(1)
    expect(test.emulator.stat(test.bucket, 's/a')?.sizeBytes).toBe(mib * 1024 * 1024)
  })

  it('count as done when the answer was lost and a repeat was answered', async () => {
    const backend = await test.open()
    test.emulator.faults.add({ fault: { kind: 'lost-answer' }, on: isPut, times: 1 })
    await backend.put('s/a', test.file('content'))
    expect(String(await test.emulator.read(test.bucket, 's/a'))).toBe('content')
  })

  it.each([
    ['a small file', 4],
    ['a streamed file', 12],
    ['a file in parts', 70],
  ])('end within the deadline when the store is silent (%s), and free their sockets', async (_name, mib) => {
    const backend = await test.open({ concurrency: 4 })
    const store = new ObjectStore(backend, {
      name: 's3',
      minRateKibS: 1e9,
      deadlines: { idleMs: 300, baseMs: 300, bytesPerSecond: 1e12 },
    })
    const drop = test.emulator.faults.add({ fault: { kind: 'silence' }, on: isPut })
    const path = largeFile(mib)
    const failures = await Promise.allSettled(Array.from({ length: 6 }, (_, i) => store.put(`s/${i}`, path)))
    for (const failure of failures) expect(failure).toMatchObject({ reason: { code: 'UNAVAILABLE' } })
    drop()
    await backend.put('s/after', test.file('x'))
    expect(test.emulator.keys(test.bucket)).toEqual(['s/after'])
  })
})

describe('uploads', () => {
  it('are given the configured class and encryption, in one request and in parts', async () => {
    const options = { storage_class: 'STANDARD_IA', kms_key_id: 'alias/sessions' }
    const backend = await test.open(options)
    await backend.put('small', test.file('x'))
    await backend.put('large', largeFile(65))
    for (const key of ['small', 'large']) {
      expect(test.emulator.stat(test.bucket, key)?.headers).toMatchObject({
        'x-amz-storage-class': 'STANDARD_IA',
        'x-amz-server-side-encryption': 'aws:kms',
        'x-amz-server-side-encryption-aws-kms-key-id': 'alias/sessions',
      })
    }
  })

  it('keep within the configured concurrency, whoever calls', async () => {
    const backend = await test.open({ concurrency: 3 })
    let most = 0
    let running = 0
    test.emulator.faults.add({
      fault: { kind: 'latency', delayMs: 5 },
      on: () => {
        most = Math.max(most, ++running)
        setTimeout(() => running--, 5)
        return true
      },
    })
    const path = test.file('x')
    await Promise.all(Array.from({ length: 30 }, (_, i) => backend.put(`s/${i}`, path)))
    expect(most).toBeLessThanOrEqual(3)
    expect(test.emulator.keys(test.bucket)).toHaveLength(30)
  })

  it('are refused after close', async () => {
    const backend = await test.open()
    await backend.close()
    const error: unknown = await backend.put('a', test.file('x')).catch((reason: unknown) => reason)
    expect(isNexusError(error, 'CLOSED')).toBe(true)
  })
})
