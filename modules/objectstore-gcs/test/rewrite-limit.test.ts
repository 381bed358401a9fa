import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestBucket, type TestBucket } from './test-bucket.ts'

let bucket: TestBucket

beforeEach(async () => {
  bucket = await openTestBucket({ rewriteIntervalMs: 1000 })
})

afterEach(() => bucket.remove())

describe('a store that takes one write of a name a second', () => {
  it('loses none of ten writes made at once in turn: each waits until it is taken', async () => {
    const backend = await bucket.open()
    for (let turn = 0; turn < 10; turn++) await backend.put('latest', bucket.file(`turn ${turn}`))
    expect((await bucket.client.get('latest'))?.toString()).toBe('turn 9')
    expect(bucket.emulator.log.filter((line) => line === 'objects.insert latest').length).toBeGreaterThan(10)
  })

  it('is waited for by deletes and by chunked uploads, too', async () => {
    const backend = await bucket.open({ options: { resumable_threshold: 1, chunk_size: 256 * 1024 } })
    await backend.put('k', bucket.file('one'))
    await backend.put('k', bucket.file('two'))
    await backend.delete('k')
    expect(await bucket.client.keys()).toEqual([])
  })

  it('is called throttling when it never stops', async () => {
    const backend = await bucket.open()
    bucket.emulator.faults.add({ fault: { kind: 'status', status: 429, code: 'rateLimitExceeded' } })
    const error: unknown = await backend.put('k', bucket.file('x')).catch((thrown: unknown) => thrown)
    expect(backend.classify(error)).toBe('throttled')
  })
})
