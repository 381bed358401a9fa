import { ObjectStore } from '@nexus/objectstore'
import type { FaultRule } from '@nexus/objectstore-emulators/faults'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'

let test: EmulatedBucket
let store: ObjectStore

beforeEach(async () => {
  test = await openEmulatedBucket()
  store = new ObjectStore(await test.open(), { name: 's3' })
})

afterEach(() => test.remove())

const isMarker: NonNullable<FaultRule['on']> = ({ operation, key }) => operation === 'PutObject' && key === 's/marker'

function attempts(): number {
  return test.emulator.requests.filter(isMarker).length
}

describe('a conditional create', () => {
  it('whose answer is lost is unknown, sent once, and found on reading back', async () => {
    test.emulator.faults.add({ fault: { kind: 'lost-answer' }, on: isMarker, times: 1 })
    const call = store.putIfAbsent('s/marker', test.file('mine'))
    await expect(call).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN', key: 's/marker', retryable: false })
    expect(attempts()).toBe(1)
    expect(String(await test.emulator.read(test.bucket, 's/marker'))).toBe('mine')
  })

  it("whose answer is lost is unknown when another writer's marker is there, too", async () => {
    await test.emulator.plant(test.bucket, 's/marker', 'theirs')
    test.emulator.faults.add({ fault: { kind: 'upload-reset', afterBytes: 1 }, on: isMarker, times: 1 })
    await expect(store.putIfAbsent('s/marker', test.file('mine'))).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(await store.putIfAbsent('s/marker', test.file('mine'))).toBe(false)
    expect(String(await test.emulator.read(test.bucket, 's/marker'))).toBe('theirs')
  })

  it.each([
    ['a conflict', 409, 'ConditionalRequestConflict', 'UNAVAILABLE'],
    ['throttled', 503, 'SlowDown', 'THROTTLED'],
    ['refused', 403, 'AccessDenied', 'PERMISSION'],
    ['an internal error, which may come after the fact', 500, 'InternalError', 'OUTCOME_UNKNOWN'],
    ['a gateway that lost its store', 502, 'BadGateway', 'OUTCOME_UNKNOWN'],
  ])('that is answered with %s is sent once and means just that', async (_name, status, code, expected) => {
    test.emulator.faults.add({ fault: { kind: 'status', status, code }, on: isMarker })
    await expect(store.putIfAbsent('s/marker', test.file('x'))).rejects.toMatchObject({ code: expected })
    expect(attempts()).toBe(1)
  })

  it('means that the key was taken only when the store says so to the first attempt', async () => {
    expect(await store.putIfAbsent('s/marker', test.file('first'))).toBe(true)
    expect(await store.putIfAbsent('s/marker', test.file('second'))).toBe(false)
    expect(attempts()).toBe(2)
  })

  it('streams a large file, once', async () => {
    const path = test.file(Buffer.alloc(20_000_000, 'x'))
    expect(await store.putIfAbsent('s/marker', path)).toBe(true)
    expect(await store.putIfAbsent('s/marker', path)).toBe(false)
    test.emulator.faults.add({ fault: { kind: 'status', status: 503, code: 'SlowDown' }, on: isMarker })
    await expect(store.putIfAbsent('s/marker', path)).rejects.toMatchObject({ code: 'THROTTLED' })
    expect(attempts()).toBe(3)
  })

  it('to a store that can not be reached is an outage, not unknown', async () => {
    const away = await test.open({ max_attempts: 1 }, { endpoint: 'http://127.0.0.1:1' })
    const call = new ObjectStore(away, { name: 's3' }).putIfAbsent('s/marker', test.file('x'))
    await expect(call).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

describe('the probe before the first conditional create', () => {
  const isProbe: NonNullable<FaultRule['on']> = ({ operation, key }) =>
    operation === 'PutObject' && key.includes('.nexus-probe-')

  it('finds a store that ignores the condition, each time, and nothing is written', async () => {
    test.emulator.quirks.ignoresIfNoneMatch = true
    for (let round = 0; round < 2; round++) {
      const call = store.putIfAbsent('s/marker', test.file('x'))
      await expect(call).rejects.toMatchObject({
        code: 'UNSUPPORTED',
        message: expect.stringContaining('ignores the condition'),
      })
    }
    expect(test.emulator.keys(test.bucket)).toEqual([])
  })

  it('finds a store that refuses it', async () => {
    test.emulator.faults.add({ fault: { kind: 'status', status: 501, code: 'NotImplemented' }, on: isProbe })
    await expect(store.putIfAbsent('s/marker', test.file('x'))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  })

  it('comes to no verdict in an outage, and is made again', async () => {
    const drop = test.emulator.faults.add({ fault: { kind: 'status', status: 503, code: 'SlowDown' }, on: isProbe })
    await expect(store.putIfAbsent('s/marker', test.file('x'))).rejects.toMatchObject({ code: 'THROTTLED' })
    drop()
    expect(await store.putIfAbsent('s/marker', test.file('x'))).toBe(true)
  })

  it('sends its creates at once, whatever the concurrency of everything else', async () => {
    const alone = new ObjectStore(await test.open({ concurrency: 1 }), { name: 's3' })
    test.emulator.faults.add({ fault: { kind: 'silence' }, on: isProbe })
    const abort = new AbortController()
    const call = alone.putIfAbsent('s/marker', test.file('x'), { signal: abort.signal })
    await vi.waitFor(() => expect(test.emulator.faults.struck('silence')).toBe(8))
    abort.abort(new Error('seen enough'))
    await expect(call).rejects.toThrow('seen enough')
  })

  it('is made once, for many first callers, and leaves nothing', async () => {
    const path = test.file('x')
    await Promise.all(Array.from({ length: 10 }, (_, i) => store.putIfAbsent(`s/${i}`, path)))
    expect(test.emulator.requests.filter(isProbe)).toHaveLength(9)
    expect(test.emulator.keys(test.bucket)).toHaveLength(10)
  })

  it('leaves nothing that anyone sees where deleting is not allowed', async () => {
    test.emulator.faults.add({
      fault: { kind: 'status', status: 403, code: 'AccessDenied' },
      on: ({ operation }) => operation === 'DeleteObject',
    })
    expect(await store.putIfAbsent('s/marker', test.file('x'))).toBe(true)
    expect(test.emulator.keys(test.bucket)).toHaveLength(2)
    expect((await store.list('')).map(({ key }) => key)).toEqual(['s/marker'])
  })
})
