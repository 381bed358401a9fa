import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { BUCKET, openTestBucket, type TestBucket } from './test-bucket.ts'

let bucket: TestBucket

beforeEach(async () => {
  bucket = await openTestBucket()
})

afterEach(() => bucket.remove())

describe('a process that is killed in the middle of an upload', () => {
  it('leaves the old object, nothing of the new one, and no obstacle to the next', async () => {
    const backend = await bucket.open()
    await backend.put('k', bucket.file('committed'))
    const isChunk = ({ operation }: { operation: string }): boolean => operation === 'uploads.chunk'
    bucket.emulator.faults.add({ fault: { kind: 'upload-stall', afterBytes: 1 }, after: 2, times: 1, on: isChunk })
    const path = bucket.file(Buffer.alloc(1024 * 1024, 7))
    const child = spawn(process.execPath, [
      ...process.execArgv,
      fileURLToPath(new URL('upload-child.ts', import.meta.url)),
      bucket.emulator.url,
      BUCKET,
      'k',
      path,
    ])
    const ended = once(child, 'close')
    await vi.waitFor(() => expect(bucket.emulator.faults.struck('upload-stall')).toBe(1), 30_000)
    child.kill('SIGKILL')
    await ended
    expect((await bucket.client.get('k'))?.toString()).toBe('committed')
    expect(await bucket.client.keys()).toEqual(['k'])
    await backend.put('k', path)
    expect((await bucket.client.metadata('k'))['size']).toBe(String(1024 * 1024))
  })
})
