import { NexusError, ObjectStore } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openTestBucket, type TestBucket } from './test-bucket.ts'

let bucket: TestBucket

beforeEach(async () => {
  bucket = await openTestBucket()
})

afterEach(() => bucket.remove())

async function openStore(endpoint = bucket.emulator.url): Promise<ObjectStore> {
  return new ObjectStore(await bucket.open({ endpoint }), { name: 'gcs' })
}

/** As {@link openStore}, the store already found to decide conditional creates. */
async function openProbedStore(): Promise<ObjectStore> {
  const store = await openStore()
  await store.putIfAbsent('first', bucket.file('x'))
  requestsBefore = bucket.emulator.log.length
  return store
}

let requestsBefore = 0
const requests = (): readonly string[] => bucket.emulator.log.slice(requestsBefore)
const inserts = (): number => requests().filter((line) => line.startsWith('objects.insert')).length

async function refusal(work: Promise<unknown>): Promise<NexusError> {
  const error: unknown = await work.catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(NexusError)
  return error as NexusError
}

describe('a conditional create', () => {
  it('whose answer was lost is not known to have happened, and is not made again', async () => {
    const store = await openProbedStore()
    bucket.emulator.faults.add({ fault: { kind: 'lost-answer' }, times: 1 })
    expect(await refusal(store.putIfAbsent('commit', bucket.file('mine')))).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      key: 'commit',
    })
    expect(inserts()).toBe(1)
    expect((await bucket.client.get('commit'))?.toString()).toBe('mine')
    // The caller reads back; a second order would be told of the first one's own object.
    expect(await store.putIfAbsent('commit', bucket.file('mine'))).toBe(false)
  })

  it.each([500, 502, 503, 504, 408])('that a gateway answered %i may have happened', async (status) => {
    const store = await openProbedStore()
    bucket.emulator.faults.add({ fault: { kind: 'status', status, code: 'backendError' } })
    expect((await refusal(store.putIfAbsent('k', bucket.file('x')))).code).toBe('OUTCOME_UNKNOWN')
    expect(inserts()).toBe(1)
  })

  it.each([
    [409, 'conflict', 'UNAVAILABLE'],
    [429, 'rateLimitExceeded', 'THROTTLED'],
    [403, 'forbidden', 'PERMISSION'],
    [400, 'invalid', 'PRECONDITION'],
  ])('that was answered %i %s did not happen', async (status, code, expected) => {
    const store = await openProbedStore()
    bucket.emulator.faults.add({ fault: { kind: 'status', status, code } })
    expect((await refusal(store.putIfAbsent('k', bucket.file('x')))).code).toBe(expected)
    expect(inserts()).toBe(1)
  })

  it('that reached nobody did not happen', async () => {
    const store = await openStore('http://127.0.0.1:1')
    expect((await refusal(store.putIfAbsent('k', bucket.file('x')))).code).toBe('UNAVAILABLE')
  })

  it('that met silence may have happened', async () => {
    const store = await openProbedStore()
    bucket.emulator.faults.add({ fault: { kind: 'silence' }, times: 1 })
    const created = refusal(store.putIfAbsent('k', bucket.file('x')))
    await vi.waitFor(() => expect(bucket.emulator.faults.struck('silence')).toBe(1))
    bucket.clock.expire(15_000)
    expect((await created).code).toBe('OUTCOME_UNKNOWN')
  })

  it('of a large file is one request as well', async () => {
    const store = await openProbedStore()
    const path = bucket.file(Buffer.alloc(9 * 1024 * 1024, 7))
    expect(await store.putIfAbsent('k', path)).toBe(true)
    expect(await store.putIfAbsent('k', path)).toBe(false)
    expect(requests()).toEqual(['objects.insert k', 'objects.insert k'])
  })
})
