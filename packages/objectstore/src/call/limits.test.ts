import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fakeBackend } from '../../test/fake-backend.ts'
import { ManualClock, settle } from '@nexus/host/testing'
import { tempDir } from '../../test/temp-dir.ts'
import type { Backend, OpOptions, Progress } from '../driver.ts'
import { ObjectStore } from './object-store.ts'

const MIB = 1024 * 1024

/** What a promise has come to, without waiting for it. */
function watch(promise: Promise<unknown>): { state: 'pending' | 'resolved' | 'rejected'; value?: unknown } {
  const seen: { state: 'pending' | 'resolved' | 'rejected'; value?: unknown } = { state: 'pending' }
  promise.then(
    (value) => Object.assign(seen, { state: 'resolved', value }),
    (error: unknown) => Object.assign(seen, { state: 'rejected', value: error }),
  )
  return seen
}

/** A call that never answers. It ends when its signal fires, unless it is deaf. */
function silent(options: OpOptions | undefined, deaf = false): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (!deaf) options?.signal?.addEventListener('abort', () => reject(new Error('socket destroyed')), { once: true })
  })
}

describe('the deadline of ObjectStore', () => {
  let clock: ManualClock
  let file: string
  const unhandled: unknown[] = []
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason)
  const storeOver = (methods: Partial<Backend>): ObjectStore =>
    new ObjectStore(fakeBackend(methods), { name: 'fake', clock })

  beforeEach(() => {
    clock = new ManualClock(0)
    file = join(tempDir(), 'file')
    writeFileSync(file, 'content')
    unhandled.length = 0
    process.on('unhandledRejection', onUnhandled)
  })

  afterEach(async () => {
    await settle()
    process.off('unhandledRejection', onUnhandled)
    assert.deepEqual(unhandled, [], 'a late settlement was not swallowed')
    assert.equal(clock.pendingTimers, 0, 'a timer was left behind')
  })

  it('ends a call to a store that accepts and never answers', async () => {
    const store = storeOver({ list: (_prefix, options) => silent(options) })
    const call = watch(store.list('s'))
    await clock.advance(29_999)
    expect(call.state).toBe('pending')
    await clock.advance(1)
    expect(call).toMatchObject({
      state: 'rejected',
      value: { code: 'UNAVAILABLE', retryable: true, op: 'objectstore.list', key: 's' },
    })
    expect((call.value as Error).message).toBe('list of "s" on fake timed out: not finished after 30 s')
  })

  it.each(['hydrate', 'put', 'delete', 'list', 'flush', 'get', 'putIfAbsent'] as const)(
    'bounds %s, whose driver is told why',
    async (method) => {
      let reason: unknown
      const store = storeOver({
        [method]: (...args: unknown[]) => {
          const options = args.at(-1) as OpOptions
          options.signal?.addEventListener('abort', () => (reason = options.signal?.reason))
          return silent(options)
        },
      })
      const calls = {
        hydrate: () => store.hydrate('s', join(file, '..')),
        put: () => store.put('s/a', file),
        delete: () => store.delete('s/a'),
        list: () => store.list('s'),
        flush: () => store.flush(),
        get: () => store.get('s/a', file),
        putIfAbsent: () => store.putIfAbsent('s/a', file),
      }
      const call = watch(calls[method]())
      await clock.advance(40_000)
      expect(call.state).toBe('rejected')
      expect(reason).toBe(call.value)
    },
  )

  it('grows by a second for each MiB of an upload', async () => {
    truncateSync(file, 10 * MIB)
    const call = watch(storeOver({ put: (_key, _path, options) => silent(options) }).put('s/a', file))
    await clock.advance(39_999)
    expect(call.state).toBe('pending')
    await clock.advance(1)
    expect(call.state).toBe('rejected')
  })

  it('grows with what the caller announces and with what a hydration has moved', async () => {
    let report: ((progress: Progress) => void) | undefined
    const store = storeOver({
      hydrate: (_prefix, _dir, options) => {
        report = options?.onProgress
        return silent(options)
      },
    })
    const announced = watch(store.hydrate('s', file, { expected: { bytes: 20 * MIB, objects: 40 } }))
    await clock.advance(30_000 + 20_000 + 10_000 - 1)
    expect(announced.state).toBe('pending')
    await clock.advance(1)
    expect(announced.state).toBe('rejected')

    const moving = watch(store.hydrate('s', file))
    for (let seconds = 1; seconds <= 200; seconds++) {
      report?.({ objects: 0, bytes: seconds * 2 * MIB })
      await clock.advance(1_000)
    }
    expect(moving.state).toBe('pending')
    await clock.advance(30_000)
    expect(moving.state).toBe('rejected')
  })

  it('ends a download whose body stalls, thirty seconds after the last progress', async () => {
    let report: ((progress: Progress) => void) | undefined
    const store = storeOver({
      get: (_key, _path, options) => {
        report = options?.onProgress
        return silent(options)
      },
    })
    const call = watch(store.get('s/a', file, { expected: { bytes: 100 * MIB } }))
    await clock.advance(20_000)
    report?.({ objects: 0, bytes: 8 * MIB })
    await clock.advance(20_000)
    // The same totals again are no progress.
    report?.({ objects: 0, bytes: 8 * MIB })
    await clock.advance(9_999)
    expect(call.state).toBe('pending')
    await clock.advance(1)
    expect(call.state).toBe('rejected')
    expect((call.value as Error).message).toContain(`30 s behind 16 KiB/s after ${8 * MIB} bytes`)
  })

  it('takes a report of nothing for none', async () => {
    const store = storeOver({
      get: (_key, _path, options) => {
        options?.onProgress?.({ objects: 0, bytes: 0 })
        return silent(options)
      },
    })
    const call = watch(store.get('s/a', file, { expected: { bytes: 100 * MIB } }))
    await clock.advance(129_999)
    expect(call.state).toBe('pending')
    await clock.advance(1)
    expect(call.state).toBe('rejected')
  })

  it('gives an upload time for what may still lie in send buffers, at the rate it was seen to move', async () => {
    truncateSync(file, 100 * MIB)
    let report: ((progress: Progress) => void) | undefined
    const store = storeOver({
      put: (_key, _path, options) => {
        report = options?.onProgress
        return silent(options)
      },
    })
    const taken = watch(store.put('s/a', file))
    report?.({ objects: 0, bytes: MIB })
    await clock.advance(30_000 + 64_000 - 1)
    expect(taken.state).toBe('pending')
    await clock.advance(1)
    expect(taken.state).toBe('rejected')

    const moving = watch(store.put('s/a', file))
    for (let s = 1; s <= 20; s++) {
      await clock.advance(1_000)
      report?.({ objects: 0, bytes: s * 4 * MIB })
    }
    // Seen: 76 MiB in 20 s, so 4 MiB take about a second.
    await clock.advance(30_000)
    expect(moving.state).toBe('pending')
    await clock.advance(1_100)
    expect(moving.state).toBe('rejected')
  })

  it('counts the bytes of an attempt that begins again as movement', async () => {
    let report: ((progress: Progress) => void) | undefined
    const store = storeOver({
      get: (_key, _path, options) => {
        report = options?.onProgress
        return silent(options)
      },
    })
    const call = watch(store.get('s/a', file))
    for (let s = 1; s <= 300; s++) {
      report?.({ objects: 0, bytes: 64 * 1024, repeatedBytes: s * 32 * 1024 })
      await clock.advance(1_000)
    }
    expect(call.state).toBe('pending')
    await clock.advance(30_000)
    expect(call.state).toBe('rejected')
  })

  it('takes the configured rate, below which a call falls behind', async () => {
    for (const [kibPerSecond, survives] of [
      [64, true],
      [30, false],
    ] as const) {
      let report: ((progress: Progress) => void) | undefined
      const store = new ObjectStore(
        fakeBackend({
          get: (_key, _path, options) => {
            report = options?.onProgress
            return silent(options)
          },
        }),
        { name: 'fake', clock, minRateKibS: 64 },
      )
      const call = watch(store.get('s/a', file))
      for (let s = 1; s <= 120; s++) {
        report?.({ objects: 0, bytes: s * kibPerSecond * 1024 })
        await clock.advance(1_000)
      }
      expect(call.state).toBe(survives ? 'pending' : 'rejected')
      await clock.advance(40_000)
      expect(call.state).toBe('rejected')
    }
  })

  it.each(['reports', 'never reports'])('counts no time that a call which %s waits for its turn', async (kind) => {
    let wait: (() => () => void) | undefined
    const store = storeOver({
      get: (_key, _path, options) => {
        if (kind === 'reports') options?.onProgress?.({ objects: 0, bytes: 1 })
        wait = options?.onWait
        return silent(options)
      },
    })
    const call = watch(store.get('s/a', file))
    await clock.advance(20_000)
    const first = wait?.()
    const second = wait?.()
    await clock.advance(3_600_000)
    first?.()
    first?.()
    await clock.advance(3_600_000)
    second?.()
    await clock.advance(9_999)
    expect(call.state).toBe('pending')
    await clock.advance(1)
    expect(call.state).toBe('rejected')
  })

  it('gives a call that never reports a second for each MiB, divided by the calls in flight', async () => {
    const store = storeOver({ get: (_key, _path, options) => silent(options) })
    const calls = Array.from({ length: 16 }, () => watch(store.get('s/a', file, { expected: { bytes: MIB } })))
    await clock.advance(45_999)
    expect(new Set(calls.map(({ state }) => state))).toEqual(new Set(['pending']))
    await clock.advance(1)
    expect(new Set(calls.map(({ state }) => state))).toEqual(new Set(['rejected']))
    const alone = watch(store.get('s/a', file, { expected: { bytes: MIB } }))
    await clock.advance(31_000)
    expect(alone.state).toBe('rejected')
  })

  it('lets a driver that reports nothing have the whole ceiling', async () => {
    truncateSync(file, 100 * MIB)
    const call = watch(storeOver({ put: (_key, _path, options) => silent(options) }).put('s/a', file))
    await clock.advance(129_999)
    expect(call.state).toBe('pending')
    await clock.advance(1)
    expect(call.state).toBe('rejected')
  })

  it('gives up on a driver that ignores its signal, and swallows what it does later', async () => {
    const late: ((error: Error) => void)[] = []
    const store = storeOver({
      list: () => new Promise((_resolve, reject) => late.push(reject)),
      flush: () => new Promise((resolve) => late.push(() => resolve())),
    })
    const calls = [watch(store.list('s')), watch(store.flush())]
    await clock.advance(30_000)
    expect(calls.map(({ state }) => state)).toEqual(['pending', 'pending'])
    await clock.advance(1_000)
    expect(calls.map(({ state }) => state)).toEqual(['rejected', 'rejected'])
    for (const settleLate of late) settleLate(new Error('too late'))
    await settle()
  })

  it('takes an answer that comes within the grace, because the work is done', async () => {
    const store = storeOver({
      putIfAbsent: (_key, _path, options) =>
        new Promise((resolve) => options?.signal?.addEventListener('abort', () => resolve(true))),
    })
    const call = watch(store.putIfAbsent('s/a', file))
    await clock.advance(31_000)
    expect(call).toEqual({ state: 'resolved', value: true })
  })

  it('calls the outcome of a conditional write unknown when it ran out of time', async () => {
    const store = storeOver({ putIfAbsent: (_key, _path, options) => silent(options) })
    const call = watch(store.putIfAbsent('s/a', file))
    await clock.advance(31_000)
    expect(call).toMatchObject({ state: 'rejected', value: { code: 'OUTCOME_UNKNOWN', key: 's/a', retryable: false } })
  })

  it('rejects with the reason of the caller, untouched, once the driver has stopped', async () => {
    let stop: (() => void) | undefined
    const store = storeOver({
      list: (_prefix, options) =>
        new Promise((_resolve, reject) => {
          stop = () => reject(new DOMException('aborted', 'AbortError'))
          options?.signal?.addEventListener('abort', () => undefined)
        }),
    })
    const abort = new AbortController()
    const call = watch(store.list('s', { signal: abort.signal }))
    abort.abort('changed my mind')
    await settle()
    expect(call.state).toBe('pending')
    stop?.()
    await settle()
    expect(call).toEqual({ state: 'rejected', value: 'changed my mind' })
  })

  it('rejects with the reason of the caller also when the driver ignores it, or finishes all the same', async () => {
    const reason = new Error('changed my mind')
    const abort = new AbortController()
    const store = storeOver({
      list: (_prefix, options) => silent(options, true),
      flush: (options) => new Promise((resolve) => options?.signal?.addEventListener('abort', () => resolve())),
    })
    const calls = [store.list('s', { signal: abort.signal }), store.flush({ signal: abort.signal })].map((call) =>
      watch(call),
    )
    abort.abort(reason)
    await clock.advance(1_000)
    expect(calls).toEqual([
      { state: 'rejected', value: reason },
      { state: 'rejected', value: reason },
    ])
  })

  it('leaves no timer and no listener behind', async () => {
    const abort = new AbortController()
    const store = storeOver({
      hydrate: async (_prefix, _dir, options) => options?.onProgress?.({ objects: 1, bytes: 1 }),
      list: () => Promise.reject(new Error('boom')),
    })
    await store.hydrate('s', file, { signal: abort.signal })
    await expect(store.list('s', { signal: abort.signal })).rejects.toThrow('boom')
    expect(clock.pendingTimers).toBe(0)
    expect(getEventListeners(abort.signal, 'abort')).toEqual([])
  })

  it('takes one signal for many calls at once without a warning', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning)
    process.on('warning', onWarning)
    const abort = new AbortController()
    const store = storeOver({
      list: async (_prefix, options) => {
        for (let i = 0; i < 12; i++) options?.signal?.addEventListener('abort', () => undefined)
        await settle()
        return []
      },
    })
    await Promise.all(Array.from({ length: 12 }, () => store.list('s', { signal: abort.signal })))
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
  })

  it('passes progress on, and none after the call has ended', async () => {
    let report: ((progress: Progress) => void) | undefined
    const store = storeOver({
      hydrate: async (_prefix, _dir, options) => {
        report = options?.onProgress
        report?.({ objects: 1, bytes: 5 })
      },
    })
    const seen: Progress[] = []
    await store.hydrate('s', file, { onProgress: (progress) => seen.push(progress) })
    report?.({ objects: 2, bytes: 9 })
    expect(seen).toEqual([{ objects: 1, bytes: 5 }])
  })

  it('gives flush time for what was put since the last one that worked', async () => {
    truncateSync(file, 10 * MIB)
    let answer = true
    const store = storeOver({ flush: (options) => (answer ? Promise.resolve() : silent(options)) })
    await store.put('s/a', file)
    await store.flush()
    await store.put('s/b', file)
    await store.delete('s/a')
    answer = false
    const ceilingMs = 30_000 + 10_000 + 2 * 250
    for (let attempt = 0; attempt < 2; attempt++) {
      const call = watch(store.flush())
      await clock.advance(ceilingMs - 1)
      expect(call.state).toBe('pending')
      await clock.advance(1)
      expect(call.state).toBe('rejected')
    }
  })

  it('takes other deadlines', async () => {
    const store = new ObjectStore(fakeBackend({ flush: (options) => silent(options, true) }), {
      name: 'fake',
      clock,
      deadlines: { baseMs: 100, graceMs: 10 },
    })
    const call = watch(store.flush())
    await clock.advance(110)
    expect(call).toMatchObject({ state: 'rejected', value: { code: 'UNAVAILABLE' } })
  })

  it('ends running calls when it is closed, and waits for them before it closes the backend', async () => {
    const order: string[] = []
    const store = storeOver({
      list: (_prefix, options) =>
        new Promise((_resolve, reject) => {
          options?.signal?.addEventListener('abort', () => {
            order.push('list told to stop')
            setImmediate(() => {
              order.push('list stopped')
              reject(new Error('stopped'))
            })
          })
        }),
      close: async () => void order.push('backend closed'),
    })
    const call = watch(store.list('s'))
    const closing = store.close()
    expect(store.close()).toBe(closing)
    await closing
    expect(call).toMatchObject({ state: 'rejected', value: { code: 'CLOSED' } })
    expect(order).toEqual(['list told to stop', 'list stopped', 'backend closed'])
    await expect(store.flush()).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(store.put('s/a', file)).rejects.toBeInstanceOf(NexusError)
  })

  it('bounds a close that never answers', async () => {
    const store = storeOver({ close: () => new Promise(() => undefined) })
    const closing = watch(store.close())
    await settle()
    await clock.advance(31_000)
    expect(closing).toMatchObject({ state: 'rejected', value: { code: 'UNAVAILABLE', op: 'objectstore.close' } })
  })
})
