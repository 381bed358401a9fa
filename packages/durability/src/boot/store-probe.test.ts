import { existsSync } from 'node:fs'
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Backend, NexusError, ObjectNotFoundError, ObjectStore } from '@nexus/objectstore'
import { createMemoryBackend, type MemoryBackend, withoutCapabilities } from '@nexus/objectstore-memory-test'
import { Fence } from '@nexus/host'
import { keepingLogger, ManualClock } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { EventOutbox } from '../events/outbox.ts'
import { newDir } from '../../test/memory-store.ts'
import { probedPath, probeStore, type StoreProbe } from './store-probe.ts'

interface Tried {
  backend: MemoryBackend
  told: string[]
  run: (parts?: Partial<StoreProbe>) => Promise<void>
  remembers: (storeId?: string) => boolean
}

/** @param driver what a stranger makes of the store */
function tried(driver: (backend: MemoryBackend) => Partial<Backend> = () => ({})): Tried {
  const backend = createMemoryBackend()
  const seen: Backend = { ...withoutCapabilities(backend, []), ...driver(backend) }
  const sessionsRoot = join(newDir('probe'), 'sessions')
  const clock = new ManualClock()
  const logger = keepingLogger()
  const outbox = new EventOutbox({ clock, logger, waitMs: 1_000 })
  const probe: StoreProbe = {
    store: new ObjectStore(seen, { name: 'test' }),
    storeId: 'one',
    sessionsRoot,
    policy: 'strict',
    outbox,
    logger,
    fence: new Fence(),
  }
  return {
    backend,
    get told() {
      return logger.lines.filter(({ level }) => level === 'error').map(({ message }) => message)
    },
    run: (parts = {}) => probeStore({ ...probe, ...parts }),
    remembers: (storeId = 'one') => existsSync(probedPath(sessionsRoot, storeId)),
  }
}

const refusal = (): Error => new NexusError('PERMISSION', 'no', { op: 'objectstore.put' })

describe('a store', () => {
  it('is tried out once for each store and machine, and nothing is left in it', async () => {
    const test = tried()
    await test.run()
    const calls = test.backend.faults.calls.map(({ op, key }) => `${op} ${key.replace(/[0-9a-f]{16}/, '<16 hex>')}`)
    expect(calls).toEqual(['put probe/<16 hex>', 'get probe/<16 hex>', 'delete probe/<16 hex>'])
    expect(test.backend.objects.size).toBe(0)
    await test.run()
    expect(test.backend.faults.calls).toHaveLength(3)
    await test.run({ storeId: 'two' })
    expect(test.backend.faults.calls).toHaveLength(6)
  })

  it('without get is taken at its word', async () => {
    const test = tried(() => ({ get: undefined as never }))
    await test.run()
    expect(test.backend.faults.calls).toEqual([])
  })

  const wrong: [string, (backend: MemoryBackend) => Partial<Backend>, string][] = [
    ['forgets', () => ({ put: async () => undefined }), 'PRECONDITION'],
    [
      'tells every read as a miss',
      () => ({ get: (key) => Promise.reject(new ObjectNotFoundError(key)) }),
      'PRECONDITION',
    ],
    ['gives back other bytes', () => ({ get: (_key, path) => writeFile(path, 'a page of a portal') }), 'PRECONDITION'],
    [
      'gives back a part',
      (backend) => ({
        async get(key, path) {
          await backend.get(key, `${path}-whole`)
          await copyFile(`${path}-whole`, path)
          await writeFile(path, 'x', { flag: 'r+' })
        },
      }),
      'PRECONDITION',
    ],
    ['refuses', () => ({ put: () => Promise.reject(refusal()) }), 'PERMISSION'],
  ]

  it.each(wrong)('that %s is refused under strict, and not remembered as good', async (_, driver, code) => {
    const test = tried(driver)
    await expect(test.run()).rejects.toMatchObject({ code })
    expect(test.remembers()).toBe(false)
  })

  it.each(wrong)('that %s is told under degrade, and the session begins', async (_, driver) => {
    const test = tried(driver)
    await test.run({ policy: 'degrade' })
    expect(test.told).toHaveLength(1)
    expect(test.remembers()).toBe(false)
  })

  it('that is out is not judged, and tried at the next boot', async () => {
    const test = tried()
    test.backend.faults.failWhen(({ op }) => op === 'get')
    await test.run()
    expect([test.told, test.remembers()]).toEqual([[], false])
    test.backend.faults.heal()
    await test.run()
    expect(test.remembers()).toBe(true)
  })

  it('that lets nothing be deleted is good all the same', async () => {
    const test = tried(() => ({ delete: () => Promise.reject(refusal()) }))
    await test.run()
    expect(test.remembers()).toBe(true)
  })
})
