import { afterEach, describe, expect, it } from 'vitest'
import { fakeBackend } from '../test/fake-backend.ts'
import { ManualClock, settle } from '@nexus/host/testing'
import { objectStoreConfig } from './config.ts'
import type { Backend } from './driver.ts'
import type { Logger } from '@nexus/host'
import { openObjectStore } from './call/open-object-store.ts'
import { backends, open, register, registered, unregister } from './registry.ts'

const logged: string[] = []
const log = (_fields: object, message: string): void => void logged.push(message)
const logger: Logger = { debug: log, info: log, warn: log, error: log }

function anyBackend(): Backend {
  return fakeBackend()
}

afterEach(() => {
  for (const name of backends()) unregister(name)
  logged.length = 0
})

describe('register', () => {
  it('makes a backend known, and the same function again is a no-op', async () => {
    register('b', anyBackend)
    register('b', anyBackend)
    register('a', anyBackend)
    expect(backends()).toEqual(['a', 'b'])
    expect(registered('a')).toBe(true)
    expect(registered('c')).toBe(false)
    expect(unregister('a')).toBe(true)
    expect(unregister('a')).toBe(false)
    expect(backends()).toEqual(['b'])
  })

  it('refuses a second factory under a name, and keeps the first', async () => {
    const first = fakeBackend()
    register('a', () => first)
    expect(() => register('a', () => fakeBackend())).toThrow(
      expect.objectContaining({ code: 'DRIVER_CONFLICT', key: 'a' }),
    )
    expect(await open(objectStoreConfig({ backend: 'a' }), { logger })).toBe(first)
  })

  it.each(['', '  ', undefined as unknown as string])('refuses the name %j', (name) => {
    expect(() => register(name, () => fakeBackend())).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })

  it('refuses a factory that is no function', () => {
    expect(() => register('a', fakeBackend() as never)).toThrow('the factory of backend "a" is not a function')
  })
})

describe('open', () => {
  it('hands the factory the configuration, the logger and a signal', async () => {
    const config = objectStoreConfig({ backend: 'a', bucket: 'b', options: { x: 1 } })
    let given: unknown[] = []
    register('a', (...args) => {
      given = args
      return Promise.resolve(fakeBackend())
    })
    await open(config, { logger })
    expect(given).toEqual([config, { logger, signal: expect.any(AbortSignal) }])
  })

  it('says of an unknown name which are registered', async () => {
    register('fs', () => fakeBackend())
    register('s3', () => fakeBackend())
    await expect(open(objectStoreConfig({ backend: 'gcs' }), { logger })).rejects.toMatchObject({
      code: 'DRIVER_MISSING',
      key: 'core.object_store.backend',
      message: expect.stringMatching(/^(?!.*gcs).*is not registered; registered: fs, s3/),
    })
  })

  it('says that no backend module was imported when none was, and what to do', async () => {
    await expect(open(objectStoreConfig({ backend: 's3' }), { logger })).rejects.toMatchObject({
      code: 'DRIVER_MISSING',
      message: expect.stringMatching(/no backend module was imported.*import '@nexus\/objectstore-s3'/),
    })
  })

  it('refuses what a factory gives that is no backend', async () => {
    register('a', () => ({ put: () => undefined }) as never)
    await expect(open(objectStoreConfig({ backend: 'a' }), { logger })).rejects.toMatchObject({
      code: 'INTERNAL',
      message: expect.stringContaining('hydrate, delete, list, flush missing'),
    })
  })

  it('does not open under a signal that has fired', async () => {
    register('a', () => expect.unreachable())
    await expect(open(objectStoreConfig({ backend: 'a' }), { logger, signal: AbortSignal.abort('no') })).rejects.toBe(
      'no',
    )
  })
})

describe('openObjectStore', () => {
  it('opens a store that carries the configured name', async () => {
    register('a', () => fakeBackend({ get: async () => undefined }))
    const store = await openObjectStore(objectStoreConfig({ backend: 'a' }), { logger })
    expect(store.name).toBe('a')
    expect(store.capabilities).toEqual({ get: true, putIfAbsent: false, listNames: false })
  })

  it('wraps what a factory throws, and passes a NexusError as it is', async () => {
    register('a', () => {
      throw new Error('no profile named x')
    })
    await expect(openObjectStore(objectStoreConfig({ backend: 'a' }), { logger })).rejects.toMatchObject({
      op: 'objectstore.open',
      message: 'open on a failed: no profile named x',
    })
    await expect(openObjectStore(objectStoreConfig({ backend: 'b' }), { logger })).rejects.toMatchObject({
      code: 'DRIVER_MISSING',
    })
  })

  it('gives up on a factory that does not answer, tells it so, and closes what comes late', async () => {
    const clock = new ManualClock(0)
    let closed = 0
    let finish: ((backend: Backend) => void) | undefined
    let told: unknown
    register('slow', (_config, { signal }) => {
      signal.addEventListener('abort', () => (told = signal.reason))
      return new Promise((resolve) => (finish = resolve))
    })
    const opening = openObjectStore(objectStoreConfig({ backend: 'slow' }), { logger, clock }).catch(
      (error: unknown) => error,
    )
    await clock.advance(30_000)
    const error = await opening
    expect(error).toMatchObject({ code: 'UNAVAILABLE', message: 'backend slow did not open within 30 s' })
    expect(told).toBe(error)
    finish?.(
      fakeBackend({
        close: async () => {
          closed++
          throw new Error('secret: hunter2')
        },
      }),
    )
    await settle()
    expect(closed).toBe(1)
    expect(logged).toEqual(['closing a backend that opened too late failed'])
    expect(clock.pendingTimers).toBe(0)
  })

  it('rejects with the reason of its signal', async () => {
    const clock = new ManualClock(0)
    register('slow', () => new Promise(() => undefined))
    const abort = new AbortController()
    const opening = openObjectStore(objectStoreConfig({ backend: 'slow' }), { logger, clock, signal: abort.signal })
    abort.abort('enough')
    await expect(opening).rejects.toBe('enough')
    expect(clock.pendingTimers).toBe(0)
  })
})
