import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { BlobStore } from '@nexus/blobs'
import { describe, expect, it } from 'vitest'
import { elapse, until } from '../../test/memory-store.ts'
import { TestHost, type HostOptions } from '../../test/test-host.ts'
import { blobPaths } from './blob-repair.ts'

async function newHost(options: HostOptions = {}): Promise<{ host: TestHost; blobs: BlobStore }> {
  const host = await TestHost.boot(options)
  return { host, blobs: BlobStore.open(join(host.dir, 'blobs'), { ...host.durability.blobHooks, byteBudget: 0 }) }
}

function keyOf(sha256: string, part: 'bin' | 'meta' = 'bin'): string {
  return `sessions/s1/${blobPaths(sha256)[part]}`
}

function stored({ backend }: TestHost, sha256: string): boolean {
  return backend.objects.has(keyOf(sha256)) && backend.objects.has(keyOf(sha256, 'meta'))
}

function recovered(host: TestHost): Promise<void> {
  return new Promise((resolve) => {
    host.bus.subscribe('session.storage.recovered', () => resolve())
  })
}

describe('blobs of a session with a store', () => {
  it('are uploaded as they are written, and flushed when no more come', async () => {
    const { host, blobs } = await newHost()
    const { sha256 } = await blobs.put(Buffer.from('a picture'), 'image/png')
    await until(() => stored(host, sha256), 'the upload')
    expect(host.backend.faults.calls.some(({ op }) => op === 'flush')).toBe(false)
    await host.clock.advance(100)
    await until(() => host.backend.faults.calls.at(-1)?.op === 'flush', 'the flush')
    await host.stop()
  })

  it('are not uploaded again by the turn', async () => {
    const { host, blobs } = await newHost()
    const { sha256 } = await blobs.put(Buffer.from('a picture'))
    await until(() => stored(host, sha256), 'the upload')
    await host.turn('t1')
    expect(host.backend.faults.calls.filter(({ op, key }) => op === 'put' && key === keyOf(sha256))).toHaveLength(1)
    await host.stop()
  })

  it('never close the gate when they fail: they queue, the outage shows, and the retry brings them up', async () => {
    const { host, blobs } = await newHost({ policy: 'strict' })
    host.backend.faults.failWhen(({ op }) => op === 'put')
    const { sha256 } = await blobs.put(Buffer.from('a picture'))
    await until(() => host.durability.status().degraded, 'the outage')
    await until(() => host.durability.status().queues.retry === 2, 'the queue')
    expect(host.seen('session.storage.degraded')).toMatchObject([{ turns_blocked: false, consecutive_failures: 1 }])
    expect(host.seen('core.error')).toEqual([])
    expect(await host.input()).toEqual({ vetoed: false })
    host.backend.faults.heal()
    await elapse(recovered(host), host.clock)
    expect(stored(host, sha256)).toBe(true)
    expect(host.seen('session.storage.recovered')).toHaveLength(1)
    await host.stop()
  })

  it('are drained by the retry alone when nothing else is owed, counted in the recovery', async () => {
    const { host, blobs } = await newHost()
    host.backend.faults.failWhen(({ op }) => op === 'put')
    const { sha256 } = await blobs.put(Buffer.from('a picture'))
    await until(() => host.durability.status().queues.retry === 2, 'the queue')
    host.backend.faults.heal()
    await elapse(recovered(host), host.clock)
    expect(stored(host, sha256)).toBe(true)
    expect(host.seen('session.storage.recovered')).toMatchObject([
      { drained_pushes: 2, failures: 1, retry_attempts: 1 },
    ])
    expect(host.seen('session.snapshot.result')).toEqual([])
    await host.stop()
  })

  it('overflow into a whole snapshot, and lose nothing', async () => {
    const { host, blobs } = await newHost({ timings: { retryQueueLimit: 4 } })
    host.backend.faults.failWhen(({ op }) => op === 'put')
    const written = []
    for (let i = 0; i < 8; i++) written.push(await blobs.put(Buffer.from(`blob ${i}`)))
    await until(() => host.durability.status().queues.dropped === 12, 'the overflow')
    expect(host.durability.status().snapshotPending).toBe(true)
    host.backend.faults.heal()
    await elapse(recovered(host), host.clock)
    for (const { sha256 } of written) expect(stored(host, sha256)).toBe(true)
    expect(host.seen('session.storage.recovered')).toMatchObject([{ dropped_pushes: 12, drained_pushes: 4 }])
    await host.stop()
  })

  it('owe a whole snapshot when their flush fails', async () => {
    const { host, blobs } = await newHost()
    host.backend.faults.failWhen(({ op }) => op === 'flush')
    const { sha256 } = await blobs.put(Buffer.from('a picture'))
    await until(() => stored(host, sha256), 'the upload')
    await host.clock.advance(100)
    await until(() => host.durability.status().snapshotPending, 'the debt')
    host.backend.faults.heal()
    await elapse(recovered(host), host.clock)
    expect(host.seen('session.snapshot.result')).toMatchObject([{ trigger: 'retry', ok: true }])
    await host.stop()
  })

  it('are evicted only when a commit names them, and come back from the store on a miss', async () => {
    const { host, blobs } = await newHost()
    const { sha256 } = await blobs.put(Buffer.from('a picture'), 'image/png')
    expect(await blobs.sweep()).toMatchObject({ evicted: 0 })
    await host.turn('t1')
    expect(await blobs.sweep()).toMatchObject({ evicted: 1 })
    expect(existsSync(join(host.dir, blobPaths(sha256).bin))).toBe(false)
    await host.turn('t2')
    expect((await blobs.get(sha256)).data.toString()).toBe('a picture')
    expect(await blobs.stat(sha256)).toMatchObject({ mediaType: 'image/png' })
    await host.stop()
  })

  it('are no miss while the store is down: the error says so', async () => {
    const { host, blobs } = await newHost()
    const { sha256 } = await blobs.put(Buffer.from('a picture'))
    await host.turn('t1')
    rmSync(join(host.dir, 'blobs'), { recursive: true })
    host.backend.faults.failWhen(({ op }) => op === 'get')
    await expect(blobs.get(sha256)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await host.kill()
  })

  it('on their way are drained by a stop, and dropped by an abandon', async () => {
    for (const end of ['stop', 'kill'] as const) {
      const { host, blobs } = await newHost()
      let release!: () => void
      const held = new Promise<void>((resolve) => {
        release = resolve
      })
      const { store } = host.test
      const put = store.put.bind(store)
      store.put = async (key, path, options) => {
        if (key.endsWith('.bin')) await held
        return put(key, path, options)
      }
      const { sha256 } = await blobs.put(Buffer.from('a picture'))
      const ended = host[end]()
      release()
      await ended
      expect(stored(host, sha256)).toBe(end === 'stop')
    }
  })

  it('do not hold up a stop beyond its bound when the store hangs', async () => {
    const { host, blobs } = await newHost()
    host.backend.faults.hang(() => true, { ignoreSignal: true })
    await blobs.put(Buffer.from('a picture'))
    const startedAt = host.clock.now()
    await elapse(host.stop(9_000), host.clock, 250)
    expect(host.clock.now() - startedAt).toBeLessThanOrEqual(20_000)
  })
})
