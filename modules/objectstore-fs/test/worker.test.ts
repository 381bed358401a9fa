import { existsSync, readdirSync, readFileSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import {
  isNexusError,
  ObjectStore,
  openObjectStore,
  objectStoreConfig,
  registered,
  silentLogger,
} from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import '../src/index.ts'
import { createTestBucket, type TestBucket } from './open-bucket.ts'

let test: TestBucket

beforeEach(() => {
  test = createTestBucket()
})

afterEach(() => test.remove())

describe('importing the module', () => {
  it('registers the backend, which opens by configuration', async () => {
    expect(registered('fs')).toBe(true)
    const store = await openObjectStore(objectStoreConfig({ backend: 'fs', bucket: test.bucket }), {
      logger: silentLogger,
    })
    await store.put('a/b', test.file('x'))
    expect(store.capabilities).toEqual({ get: true, putIfAbsent: true, listNames: true })
    expect((await store.list('a')).map(({ key, size }) => [key, size])).toEqual([['a/b', 1]])
    await store.close()
  })
})

describe('calls through the worker', () => {
  it('report what they moved, in steps of at most 8 MiB', async () => {
    const backend = await test.open({ fsync: false })
    const path = test.file('x')
    const size = 20 * 1024 * 1024
    truncateSync(path, size)
    for (const run of [
      (onProgress: (p: { objects: number; bytes: number }) => void) => backend.put('s/large', path, { onProgress }),
      (onProgress: (p: { objects: number; bytes: number }) => void) =>
        backend.get('s/large', test.freshPath(), { onProgress }),
      (onProgress: (p: { objects: number; bytes: number }) => void) =>
        backend.hydrate('s', test.freshPath(), { onProgress }),
    ]) {
      const seen: { objects: number; bytes: number }[] = []
      await run((progress) => seen.push({ ...progress }))
      const steps = seen.map(({ bytes }, index) => bytes - (seen[index - 1]?.bytes ?? 0))
      expect(Math.max(...steps)).toBeLessThanOrEqual(8 * 1024 * 1024)
      expect(seen.at(-1)).toEqual({ objects: 1, bytes: size })
    }
  })

  it('stop soon after an abort on a report, and leave nothing behind', async () => {
    const backend = await test.open({ fsync: false })
    const path = test.file('x')
    truncateSync(path, 64 * 1024 * 1024)
    const reason = new Error('enough')
    for (const call of ['put', 'get'] as const) {
      const abort = new AbortController()
      let bytes = 0
      const onProgress = (progress: { bytes: number }): void => {
        bytes = progress.bytes
        abort.abort(reason)
      }
      const local = test.freshPath()
      const options = { signal: abort.signal, onProgress }
      await expect(call === 'put' ? backend.put('k', path, options) : backend.get('k', local, options)).rejects.toBe(
        reason,
      )
      expect(bytes).toBeLessThan(32 * 1024 * 1024)
      expect(existsSync(local)).toBe(false)
      expect(readdirSync(join(test.bucket, '\\tmp'))).toEqual([])
      await backend.put('k', path)
      await backend.delete(call === 'put' ? 'none' : 'k')
    }
  })

  it('carry the operation and the key in what they throw', async () => {
    const backend = await test.open()
    const store = new ObjectStore(backend, { name: 'fs' })
    const missing = test.freshPath()
    await expect(backend.put('a/b', missing)).rejects.toMatchObject({
      code: 'ENOENT',
      op: 'put',
      key: 'a/b',
      path: missing,
    })
    await expect(store.put('a/b', missing)).rejects.toMatchObject({
      code: 'LOCAL_IO',
      op: 'objectstore.put',
      key: 'a/b',
    })
    await expect(store.get('a/b', test.freshPath())).rejects.toMatchObject({
      code: 'NOT_FOUND',
      op: 'objectstore.get',
      key: 'a/b',
    })
    await expect(store.get('a/b', join(missing, 'x'))).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await backend.put('a/b', test.file('x'))
    await expect(store.get('a/b', join(missing, 'x'))).rejects.toMatchObject({ code: 'LOCAL_IO' })
  })

  it('are no outage of the store when the local disk is at fault', async () => {
    const backend = await test.open()
    const error: unknown = await backend.put('k', test.freshPath()).catch((reason: unknown) => reason)
    expect(isNexusError(error)).toBe(false)
    expect(backend.classify(error)).toBeUndefined()
  })

  it('go on beside a large one', async () => {
    const backend = await test.open()
    const path = test.file('x')
    truncateSync(path, 64 * 1024 * 1024)
    const order: string[] = []
    const large = backend.put('large', path).then(() => order.push('large'))
    for (let index = 0; index < 5; index++) {
      await backend.put(`small/${index}`, test.file('y'))
      order.push('small')
    }
    await large
    expect(order.indexOf('large')).toBeGreaterThan(0)
    const got = test.freshPath()
    await backend.get('small/4', got)
    expect(readFileSync(got, 'utf8')).toBe('y')
  })
})
