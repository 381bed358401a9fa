import { connect } from 'node:net'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isNexusError } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { GcsBackend } from '../src/driver.ts'
import { freshDirectory, openTestBucket, type TestBucket } from './test-bucket.ts'

let bucket: TestBucket

beforeEach(async () => {
  bucket = await openTestBucket()
})

afterEach(() => bucket.remove())

type Call = (backend: GcsBackend, signal: AbortSignal) => Promise<unknown>

/** A backend that has found its store to decide conditional creates. */
async function openProbed(): Promise<GcsBackend> {
  const backend = await bucket.open()
  await backend.putIfAbsent('first', bucket.file('x'))
  return backend
}

const calls: [string, Call][] = [
  ['put', (backend, signal) => backend.put('k', bucket.file('x'), { signal })],
  ['putIfAbsent', (backend, signal) => backend.putIfAbsent('k', bucket.file('x'), { signal })],
  ['get', (backend, signal) => backend.get('k', bucket.freshPath(), { signal })],
  ['delete', (backend, signal) => backend.delete('k', { signal })],
  ['list', (backend, signal) => backend.list('', { signal })],
  ['hydrate', (backend, signal) => backend.hydrate('', freshDirectory(bucket), { signal })],
]

describe.each(calls)('%s', (_name, call) => {
  it('under silence ends with its signal, and asks nothing more', async () => {
    const backend = await openProbed()
    const before = bucket.emulator.log.length
    bucket.emulator.faults.add({ fault: { kind: 'silence' } })
    const abort = new AbortController()
    const work = call(backend, abort.signal)
    await vi.waitFor(() => expect(bucket.emulator.faults.struck('silence')).toBe(1))
    const reason = new Error('enough')
    abort.abort(reason)
    await expect(work).rejects.toBe(reason)
    expect(bucket.emulator.log).toHaveLength(before + 1)
  })

  it('that waits between attempts ends with its signal, too', async () => {
    const backend = await openProbed()
    const before = bucket.emulator.log.length
    const abort = new AbortController()
    const reason = new Error('enough')
    bucket.clock.onPause = () => abort.abort(reason)
    bucket.emulator.faults.add({ fault: { kind: 'status', status: 429, code: 'rateLimitExceeded' } })
    const error: unknown = await call(backend, abort.signal).catch((thrown: unknown) => thrown)
    // A conditional create does not wait.
    expect(error === reason || backend.classify(error) === 'throttled').toBe(true)
    expect(bucket.emulator.log).toHaveLength(before + 1)
  })

  it('after close is refused', async () => {
    const backend = await bucket.open()
    await backend.close()
    const error: unknown = await call(backend, new AbortController().signal).catch((thrown: unknown) => thrown)
    expect(isNexusError(error, 'CLOSED')).toBe(true)
    expect(bucket.emulator.log).toEqual([])
  })
})

describe('requests', () => {
  it('that meet silence before any answer are given up in time and made again', async () => {
    const backend = await bucket.open()
    bucket.emulator.faults.add({ fault: { kind: 'silence' }, times: 1 })
    const list = backend.list('')
    await vi.waitFor(() => expect(bucket.emulator.faults.struck('silence')).toBe(1))
    expect(bucket.clock.expire(15_000)).toBe(1)
    expect(await list).toEqual([])
  })

  it('are never more at a time than configured; those that wait can be aborted', async () => {
    const backend = await bucket.open({ options: { concurrency: 2 } })
    bucket.emulator.faults.add({ fault: { kind: 'silence' } })
    const abort = new AbortController()
    const puts = [1, 2, 3, 4, 5].map((n) => backend.put(String(n), bucket.file('x'), { signal: abort.signal }))
    const settled = Promise.allSettled(puts)
    await vi.waitFor(() => expect(bucket.emulator.faults.struck('silence')).toBe(2))
    abort.abort(new Error('enough'))
    for (const each of await settled) expect(each).toMatchObject({ status: 'rejected', reason: { message: 'enough' } })
    expect(bucket.emulator.log).toHaveLength(2)
    bucket.emulator.faults.clear()
    await Promise.all([1, 2, 3, 4, 5].map((n) => backend.put(String(n), bucket.file('x'))))
    expect(await bucket.client.keys()).toHaveLength(5)
  })

  it.each([1, 1_000_000])(
    'carry storage class and encryption key, with files in chunks above %i bytes',
    async (threshold) => {
      const kmsKey = 'projects/p/locations/l/keyRings/r/cryptoKeys/k'
      const options = { storage_class: 'COLDLINE', kms_key_name: kmsKey, resumable_threshold: threshold }
      const backend = await bucket.open({ options })
      await backend.put('k', bucket.file('content'))
      const { storageClass, kmsKeyName, contentType } = await bucket.client.metadata('k')
      expect({ storageClass, kmsKeyName, contentType }).toEqual({
        storageClass: 'COLDLINE',
        kmsKeyName: kmsKey,
        contentType: 'application/octet-stream',
      })
    },
  )

  it('that nobody waited for are waited for by flush', async () => {
    const backend = await bucket.open()
    const put = backend.put('k', bucket.file('x'))
    await backend.flush()
    expect(await bucket.client.keys()).toEqual(['k'])
    await put
  })

  it('go through the proxy of the environment', async () => {
    let tunnels = 0
    const proxy = createServer()
    proxy.on('connect', (request, socket) => {
      tunnels++
      const { hostname, port } = new URL(`http://${request.url ?? ''}`)
      const target = connect(Number(port), hostname, () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n')
        target.pipe(socket).pipe(target)
      })
      for (const end of [target, socket]) end.on('error', () => end.destroy())
    })
    await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve))
    try {
      vi.stubEnv('HTTPS_PROXY', `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`)
      vi.stubEnv('NO_PROXY', '')
      const backend = await bucket.open()
      await backend.put('k', bucket.file('x'))
      expect(tunnels).toBeGreaterThan(0)
      expect(await bucket.client.keys()).toEqual(['k'])
    } finally {
      proxy.closeAllConnections()
      proxy.close()
    }
  })
})
