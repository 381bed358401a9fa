import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { backends, type Logger, objectStoreConfig, ObjectStore, openObjectStore } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createMemoryBackend, memoryBucket, registerMemoryBackend, withoutCapabilities } from './index.ts'

const MIB = 1024 * 1024

const warnings: string[] = []
const logger: Logger = {
  debug: ignore,
  info: ignore,
  error: ignore,
  warn: (_fields, message) => warnings.push(message),
}

function ignore(): void {}

function openBucket(bucket: string, prefix: string): Promise<ObjectStore> {
  return openObjectStore(objectStoreConfig({ backend: 'memory-test', bucket, prefix }), { logger })
}

describe('the memory backend', () => {
  let dir: string
  let file: string
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'nexus-memory-'))
    file = join(dir, 'file')
    writeFileSync(file, 'content')
    warnings.length = 0
  })

  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  it('registers itself as memory-test, and warns whoever opens it', async () => {
    expect(backends()).toContain('memory-test')
    await openObjectStore(objectStoreConfig({ backend: 'memory-test', bucket: 'warns' }), { logger })
    expect(warnings).toEqual([expect.stringContaining('nothing in it survives')])
  })

  it('refuses options: it has none', async () => {
    const config = objectStoreConfig({ backend: 'memory-test', options: { durable: true } })
    await expect(openObjectStore(config, { logger })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      key: 'core.object_store.options.durable',
    })
  })

  it('shares a named bucket between all that open it, below their prefixes, also after a close', async () => {
    const [one, two, below, other] = await Promise.all([
      openBucket('shared', ''),
      openBucket('shared', ''),
      openBucket('shared', 'p'),
      openBucket('not-shared', ''),
    ])
    await one.put('a', file)
    await below.put('a', file)
    await one.close()
    expect((await two.list('')).map(({ key }) => key)).toEqual(['a', 'p/a'])
    expect((await below.list('')).map(({ key }) => key)).toEqual(['a'])
    expect(await other.list('')).toEqual([])
    expect([...memoryBucket('shared').keys()]).toEqual(['a', 'p/a'])
  })

  it("can be registered under a name of one's own, and taken away", async () => {
    const { backend, unregister } = registerMemoryBackend('mine')
    const plain = await openObjectStore(objectStoreConfig({ backend: 'mine' }), { logger })
    const below = await openObjectStore(objectStoreConfig({ backend: 'mine', prefix: 'p' }), { logger })
    await plain.put('a', file)
    await below.put('b', file)
    expect([...backend.objects.keys()]).toEqual(['a', 'p/b'])
    backend.faults.failWhen(() => true)
    await expect(below.flush()).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true })
    unregister()
    expect(backends()).not.toContain('mine')
    expect(warnings).toEqual([])
  })

  it('keeps the first bytes of a file that grows, and refuses one that shrinks', async () => {
    const backend = createMemoryBackend()
    truncateSync(file, 3 * MIB)
    let grown = false
    await backend.put('log', file, {
      onProgress: () => {
        if (!grown) appendFileSync(file, Buffer.alloc(MIB))
        grown = true
      },
    })
    expect(backend.objects.get('log')?.bytes.length).toBe(3 * MIB)
    const shrinking = backend.put('cut', file, { onProgress: () => truncateSync(file, 10) })
    await expect(shrinking).rejects.toThrow(/shrank to \d+ bytes from 4194304/)
    expect([...backend.objects.keys()]).toEqual(['log'])
  })

  it('lets the event loop turn while it moves many small files', async () => {
    const backend = createMemoryBackend()
    writeFileSync(file, Buffer.alloc(200_000))
    let turns = 0
    let running = true
    const tick = (): void => {
      turns++
      if (running) setImmediate(tick)
    }
    setImmediate(tick)
    await Promise.all(Array.from({ length: 400 }, (_, i) => backend.put(`s/${i}`, file)))
    await backend.hydrate('s', join(dir, 'out'))
    running = false
    expect(turns).toBeGreaterThan(2)
    expect(readdirSync(join(dir, 'out'))).toHaveLength(400)
  })

  it('classifies only what says of itself what it is', () => {
    const backend = createMemoryBackend()
    expect(backend.classify(Object.assign(new Error('x'), { errorClass: 'throttled' }))).toBe('throttled')
    expect(backend.classify(Object.assign(new Error('x'), { errorClass: 'odd' }))).toBeUndefined()
    expect(backend.classify(new Error('x'))).toBeUndefined()
    expect(backend.classify(null)).toBeUndefined()
  })

  it('can be had without capabilities, as if they had never been written', async () => {
    const backend = createMemoryBackend()
    const bare = withoutCapabilities(backend, ['get', 'classify', 'listNames'])
    expect(Object.keys(bare).toSorted()).toEqual(['close', 'delete', 'flush', 'hydrate', 'list', 'put', 'putIfAbsent'])
    const store = new ObjectStore(bare, { name: 'bare' })
    expect(store.capabilities).toEqual({ get: false, putIfAbsent: true, listNames: false })
    await store.put('s/a', file)
    await store.hydrate('s', join(dir, 'out'))
    expect(readFileSync(join(dir, 'out', 'a'), 'utf8')).toBe('content')
    expect(backend.objects.size).toBe(1)
  })
})
