import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { isNexusError, NexusError } from '@nexus/errors'
import { describe, expect, it } from 'vitest'
import { fakeBackend } from '../../test/fake-backend.ts'
import { tempDir } from '../../test/temp-dir.ts'
import type { Backend, ErrorClass } from '../driver.ts'
import { isObjectNotFound, ObjectFailure, ObjectNotFoundError } from '../errors.ts'
import { ObjectStore } from './object-store.ts'

function storeOver(methods: Partial<Backend> = {}): ObjectStore {
  return new ObjectStore(fakeBackend(methods), { name: 'fake' })
}

function tempFile(): string {
  const path = join(tempDir(), 'file')
  writeFileSync(path, 'content')
  return path
}

async function rejection(promise: Promise<unknown>): Promise<NexusError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!isNexusError(error)) throw new Error(`not a NexusError: ${String(error)}`)
  return error
}

function systemError(code: string, more: object = {}): Error {
  return Object.assign(new Error(`${code}: it failed`), { code, ...more })
}

describe('ObjectStore', () => {
  it('refuses what lacks a method, naming it', () => {
    const rest = { ...fakeBackend(), flush: undefined } as unknown as Backend
    expect(() => new ObjectStore(rest, { name: 'fake' })).toThrow('backend "fake" is not a backend: flush')
    expect(() => new ObjectStore(null as unknown as Backend, { name: 'fake' })).toThrow(/hydrate, put, delete, list/)
  })

  it('never calls the driver with a malformed key, prefix, path or range', async () => {
    let called = 0
    const count = async (): Promise<never> => {
      called++
      throw new Error('called')
    }
    const store = storeOver({ put: count, list: count, hydrate: count, delete: count, get: count, putIfAbsent: count })
    const path = tempFile()
    for (const key of ['', '/a', 'a/', 'a//b', '../a', 'a\\b', 'a\0', '\ud800']) {
      for (const call of [
        store.put(key, path),
        store.delete(key),
        store.get(key, path),
        store.putIfAbsent(key, path),
      ]) {
        expect(await rejection(call)).toMatchObject({ name: 'InvalidKeyError', code: 'INVALID_ARGUMENT', key })
      }
    }
    for (const call of [store.list('a/'), store.hydrate('../a', path)]) {
      expect(await rejection(call)).toMatchObject({ name: 'InvalidKeyError' })
    }
    for (const bad of ['', 'a\0b', undefined as unknown as string]) {
      expect(await rejection(store.put('a', bad))).toMatchObject({ code: 'INVALID_ARGUMENT' })
      expect(await rejection(store.hydrate('a', bad))).toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
    for (const range of [{ offset: -1 }, { offset: 0.5 }, { length: Number.NaN }, { length: -5 }]) {
      expect(await rejection(store.get('a', path, range))).toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
    expect(called).toBe(0)
  })

  it('wraps what a driver throws exactly once, and keeps it as the cause', async () => {
    const cause = new Error('the store is on fire')
    const error = await rejection(storeOver({ delete: () => Promise.reject(cause) }).delete('s/a'))
    expect(error).toMatchObject({ code: 'UNAVAILABLE', op: 'objectstore.delete', key: 's/a', retryable: true })
    expect(error.cause).toBe(cause)
    expect(error.message).toBe('delete of "s/a" on fake failed: the store is on fire')
  })

  it('passes a NexusError of the driver as it is', async () => {
    const error = new NexusError('FENCED', 'another host took over')
    await expect(storeOver({ flush: () => Promise.reject(error) }).flush()).rejects.toBe(error)
  })

  it('treats a driver that throws like one that rejects', async () => {
    const store = storeOver({
      flush: () => {
        throw systemError('ECONNREFUSED')
      },
    })
    expect(await rejection(store.flush())).toMatchObject({ code: 'UNAVAILABLE', op: 'objectstore.flush' })
  })

  it.each<[ErrorClass | undefined, string, boolean]>([
    ['temporary', 'UNAVAILABLE', true],
    ['throttled', 'THROTTLED', true],
    ['permission', 'PERMISSION', false],
    ['not-found', 'NOT_FOUND', false],
    ['permanent', 'PRECONDITION', false],
    [undefined, 'UNAVAILABLE', true],
    ['nonsense' as ErrorClass, 'UNAVAILABLE', true],
  ])('gives an error classified %s the code %s', async (errorClass, code, retryable) => {
    const store = storeOver({ flush: () => Promise.reject(new Error('x')), classify: () => errorClass })
    expect(await rejection(store.flush())).toMatchObject({ code, retryable })
  })

  it('reports the error itself when the classifier throws', async () => {
    const cause = new Error('the real one')
    const store = storeOver({
      flush: () => Promise.reject(cause),
      classify: () => {
        throw new Error('classifier bug')
      },
    })
    expect((await rejection(store.flush())).cause).toBe(cause)
  })

  it('calls a thrown TypeError of the driver a bug, but not that of a failed fetch', async () => {
    const bug = await rejection(storeOver({ flush: () => Promise.reject(new TypeError('x is undefined')) }).flush())
    expect(bug.code).toBe('INTERNAL')
    const fetchFailed = new TypeError('fetch failed', { cause: systemError('ECONNREFUSED') })
    expect(await rejection(storeOver({ flush: () => Promise.reject(fetchFailed) }).flush())).toMatchObject({
      code: 'UNAVAILABLE',
      cause: fetchFailed,
    })
  })

  it('tells a failing local file from a failing store', async () => {
    const path = join(tempDir(), 'missing')
    const store = storeOver({
      put: async (_key, from) => void readFileSync(from),
      get: async () => {
        throw systemError('ENOSPC', { syscall: 'write' })
      },
      hydrate: async (_prefix, dir) => {
        mkdirSync(dir)
        writeFileSync(join(dir, 'no', 'such', 'directory'), '')
      },
    })
    expect(await rejection(store.put('s/a', path))).toMatchObject({ code: 'LOCAL_IO', key: 's/a', retryable: false })
    expect(await rejection(store.get('s/a', path))).toMatchObject({ code: 'LOCAL_IO' })
    expect(await rejection(store.hydrate('s', path))).toMatchObject({ code: 'LOCAL_IO', key: 's' })
    const remote = storeOver({
      put: async () => {
        throw systemError('ENOENT', { path: '/mnt/bucket/s/a' })
      },
      classify: () => 'permission',
    })
    expect(await rejection(remote.put('s/a', path))).toMatchObject({ code: 'PERMISSION' })
  })

  it('names the object a hydration failed on, and classifies its own error', async () => {
    const cause = new Error('503 slow down')
    const store = storeOver({
      hydrate: () => Promise.reject(new ObjectFailure('s/deep/file', cause)),
      classify: (error) => (error === cause ? 'throttled' : 'permanent'),
    })
    const error = await rejection(store.hydrate('s', tempDir()))
    expect(error).toMatchObject({ code: 'THROTTLED', key: 's/deep/file', cause })
    expect(error.message).toContain('"s/deep/file"')
  })

  it('makes a missing object of get an ObjectNotFoundError, whoever says so', async () => {
    const path = tempFile()
    const classified = storeOver({ get: () => Promise.reject(new Error('404')), classify: () => 'not-found' })
    expect(await rejection(classified.get('s/a', path))).toMatchObject({ name: 'ObjectNotFoundError', key: 's/a' })
    const own = new ObjectNotFoundError('s/a')
    await expect(storeOver({ get: () => Promise.reject(own) }).get('s/a', path)).rejects.toBe(own)
    const outage = storeOver({ get: () => Promise.reject(new Error('500')), classify: () => 'temporary' })
    expect((await rejection(outage.get('s/a', path))).code).toBe('UNAVAILABLE')
  })

  it.each<[string, Error, ErrorClass | undefined, string]>([
    ['a lost connection', systemError('ECONNRESET'), 'temporary', 'OUTCOME_UNKNOWN'],
    ['a lost connection below', new Error('x', { cause: systemError('EPIPE') }), 'temporary', 'OUTCOME_UNKNOWN'],
    ['an error nobody can explain', new Error('?'), undefined, 'OUTCOME_UNKNOWN'],
    ['a connection that never was', systemError('ECONNREFUSED'), undefined, 'UNAVAILABLE'],
    ['a conflict that passes', new Error('409'), 'temporary', 'UNAVAILABLE'],
    ['throttling', new Error('503'), 'throttled', 'THROTTLED'],
  ])('after %s, says of a conditional write what is known', async (_what, cause, errorClass, code) => {
    const store = storeOver({ putIfAbsent: () => Promise.reject(cause), classify: () => errorClass })
    expect(await rejection(store.putIfAbsent('s/a', tempFile()))).toMatchObject({ code, cause })
  })

  it('gives the answer of a conditional write and refuses one that is no answer', async () => {
    for (const answer of [true, false]) {
      expect(await storeOver({ putIfAbsent: async () => answer }).putIfAbsent('a', tempFile())).toBe(answer)
    }
    const vague = storeOver({ putIfAbsent: async () => 'created' as unknown as boolean })
    expect(await rejection(vague.putIfAbsent('a', tempFile()))).toMatchObject({ code: 'INTERNAL' })
  })

  it('says what the backend can do, and refuses the rest with UNSUPPORTED', async () => {
    const bare = storeOver()
    expect(bare.capabilities).toEqual({ get: false, putIfAbsent: false, listNames: false })
    expect(await rejection(bare.putIfAbsent('a', tempFile()))).toMatchObject({ code: 'UNSUPPORTED' })
    await bare.close()
    const full = storeOver({ get: async () => undefined, putIfAbsent: async () => true })
    expect(full.capabilities).toEqual({ get: true, putIfAbsent: true, listNames: false })
  })

  it.each(['with', 'without'])('lists the names below a prefix, %s the capability', async (kind) => {
    const list = async (): Promise<{ key: string; size: number }[]> =>
      ['s/b/1', 's/b/2', 's/a', 's/a/x'].map((key) => ({ key, size: 1 }))
    const store = storeOver({ list, ...(kind === 'with' ? { listNames: async () => ['b', 'a'] } : {}) })
    expect(await store.listNames('s')).toEqual(['a', 'b'])
  })

  it.each([undefined, ['a/b'], [''], [5], 'names'])('refuses %j as names', async (answer) => {
    const store = storeOver({ listNames: async () => answer as string[] })
    expect(await rejection(store.listNames('s'))).toMatchObject({ code: 'INTERNAL', op: 'objectstore.listNames' })
  })

  describe('get without the capability', () => {
    const content = '0123456789'
    const hydrated: string[] = []
    const bare = (): ObjectStore =>
      storeOver({
        list: async () => [{ key: 's/m/a', size: content.length }],
        hydrate: async (prefix, dir) => {
          hydrated.push(prefix)
          writeFileSync(join(dir, 'a'), content)
          writeFileSync(join(dir, 'other'), 'not asked for')
        },
      })

    it.each([
      [{}, content],
      [{ offset: 3, length: 4 }, '3456'],
      [{ offset: 8, length: 99 }, '89'],
      [{ offset: 99 }, ''],
      [{ length: 0 }, ''],
    ])('takes %j out of the hydrated directory, and leaves nothing else', async (range, expected) => {
      const dir = tempDir()
      await bare().get('s/m/a', join(dir, 'target'), range)
      expect(readFileSync(join(dir, 'target'), 'utf8')).toBe(expected)
      expect(readdirSync(dir)).toEqual(['target'])
      expect(hydrated.at(-1)).toBe('s/m')
    })

    it('says of what the listing does not have that it is missing, without hydrating', async () => {
      hydrated.length = 0
      expect(await rejection(bare().get('s/m/b', tempFile()))).toMatchObject({
        name: 'ObjectNotFoundError',
        key: 's/m/b',
      })
      expect(hydrated).toEqual([])
    })

    it('does not take a missing bucket for a missing object', async () => {
      const store = storeOver({ list: () => Promise.reject(new Error('no bucket')), classify: () => 'not-found' })
      const error = await rejection(store.get('s/m/a', tempFile()))
      expect(error).toMatchObject({ code: 'NOT_FOUND' })
      expect(isObjectNotFound(error)).toBe(false)
    })

    it('is temporary where the listing is', async () => {
      const store = storeOver({ list: () => Promise.reject(systemError('ECONNREFUSED')) })
      expect(await rejection(store.get('s/m/a', tempFile()))).toMatchObject({ code: 'UNAVAILABLE', key: 's/m/a' })
    })
  })

  it('asks again for an object that arrives short, and leaves what it is in the end', async () => {
    const path = tempFile()
    let calls = 0
    const store = storeOver({ get: async (_key, to) => writeFileSync(to, 'x'.repeat(++calls)) })
    await store.get('a', path, { expected: { bytes: 2 } })
    expect([calls, readFileSync(path, 'utf8')]).toEqual([2, 'xx'])
    await store.get('a', path, { expected: { bytes: 100 } })
    expect([calls, readFileSync(path, 'utf8')]).toEqual([5, 'xxxxx'])
    await store.get('a', path, { expected: { bytes: 100 }, length: 100 })
    expect(calls).toBe(6)
  })

  it('calls the methods of the backend on the backend', async () => {
    class Driver {
      readonly #seen: string[] = []
      async hydrate(): Promise<void> {}
      async put(key: string): Promise<void> {
        this.#seen.push(key)
      }
      async delete(): Promise<void> {}
      async list(): Promise<{ key: string; size: number }[]> {
        return this.#seen.map((key) => ({ key, size: 1 }))
      }
      async flush(): Promise<void> {}
      async get(): Promise<void> {
        this.#seen.push('got')
      }
      async putIfAbsent(key: string): Promise<boolean> {
        return this.#seen.push(key) > 0
      }
      classify(): ErrorClass | undefined {
        return this.#seen.length > 0 ? 'permission' : undefined
      }
      async close(): Promise<void> {
        this.#seen.length = 0
      }
    }
    const store = new ObjectStore(new Driver(), { name: 'class' })
    await store.put('a', tempFile())
    await store.get('b', tempFile())
    await store.putIfAbsent('c', tempFile())
    expect((await store.list('')).map(({ key }) => key)).toEqual(['a', 'got', 'c'])
    await store.close()
  })

  it('hands the driver a signal always, and the range', async () => {
    const seen: object[] = []
    const store = storeOver({ get: async (_key, _path, options) => void seen.push({ ...options }) })
    await store.get('a', tempFile(), { offset: 3, length: 4 })
    await store.get('a', tempFile())
    expect(seen[0]).toMatchObject({ offset: 3, length: 4, signal: expect.any(AbortSignal) })
    expect(Object.keys(seen[1] ?? {}).toSorted()).toEqual(['onProgress', 'onWait', 'signal'])
  })

  it('does not call the driver when the signal has fired', async () => {
    let called = false
    const store = storeOver({
      put: async () => {
        called = true
      },
    })
    await expect(store.put('a', tempFile(), { signal: AbortSignal.abort('why') })).rejects.toBe('why')
    expect(called).toBe(false)
  })

  it.each<[string, unknown, string]>([
    ['a key of another session', [{ key: 'sess-10/a', size: 1 }], 'not under it'],
    ['the object at the prefix', [{ key: 'sess-1', size: 1 }], 'not under it'],
    ['no array', undefined, 'did not answer with an array'],
    ['an entry without a size', [{ key: 'sess-1/a' }], 'without a key and a size'],
    ['an entry with a size that is no number', [{ key: 'sess-1/a', size: Number.NaN }], 'without a key and a size'],
    ['no entry', [null], 'without a key and a size'],
  ])('refuses a listing with %s', async (_what, answer, problem) => {
    const store = storeOver({ list: async () => answer as [] })
    const error = await rejection(store.list('sess-1'))
    expect(error.code).toBe('INTERNAL')
    expect(error.message).toContain(problem)
  })

  it('never shows a credential, neither in its message nor in its cause', async () => {
    const secrets = ['AKIAIOSFODNN7EXAMPLE', 'wJalrXUtnFEMI', 'hunter2', 'deadbeefsignature', 'ya29.token-of-google']
    const cause = new Error(
      'PUT https://user:hunter2@proxy.example/b?X-Amz-Signature=deadbeefsignature failed: ' +
        'AWSAccessKeyId AKIAIOSFODNN7EXAMPLE, secret_access_key=wJalrXUtnFEMI, Authorization: Bearer ya29.token-of-google',
      { cause: new Error('password: hunter2') },
    )
    const error = await rejection(storeOver({ put: () => Promise.reject(cause) }).put('a', tempFile()))
    const shown = [error.message, error.stack, cause.message, cause.stack, (cause.cause as Error).message].join('\n')
    for (const secret of secrets) expect(shown).not.toContain(secret)
    expect(error.cause).toBe(cause)
    expect(error.message).toContain('put of "a" on fake failed: PUT https://')
  })

  it.each([
    ['a text', 'secret: hunter2'],
    ['a frozen error', Object.freeze(new Error('secret: hunter2'))],
  ])('never shows a credential of %s that was thrown', async (_what, thrown) => {
    const error = await rejection(storeOver({ flush: () => Promise.reject(thrown) }).flush())
    expect(error.message).toBe('flush on fake failed: secret: [redacted]')
    expect(inspect(error, { depth: 5 })).not.toContain('hunter2')
    expect(typeof error.cause).toBe(typeof thrown)
  })

  it('leaves local files alone when a call is refused', async () => {
    const path = join(tempDir(), 'target')
    await rejection(storeOver({ get: async () => undefined }).get('../a', path))
    expect(existsSync(path)).toBe(false)
  })
})
