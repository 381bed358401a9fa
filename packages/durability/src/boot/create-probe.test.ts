import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Fence } from '@nexus/host'
import { keepingLogger } from '@nexus/host/testing'
import { ObjectStore } from '@nexus/objectstore'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { describe, expect, it } from 'vitest'
import { newDir } from '../../test/memory-store.ts'
import { createsProbedPath, probeCreates } from './create-probe.ts'

function tried(backend: MemoryBackend = createMemoryBackend()): {
  backend: MemoryBackend
  run: () => Promise<void>
  remembers: () => boolean
} {
  const sessionsRoot = join(newDir('creates'), 'sessions')
  const store = new ObjectStore(backend, { name: 'test' })
  const probe = { store, storeId: 'one', sessionsRoot, logger: keepingLogger(), fence: new Fence() }
  return {
    backend,
    run: () => probeCreates(probe),
    remembers: () => existsSync(createsProbedPath(sessionsRoot, 'one')),
  }
}

describe('the conditional creates of a store', () => {
  it('are tried out once for each store and machine, and nothing is left', async () => {
    const test = tried()
    await test.run()
    const creates = test.backend.faults.calls.filter(({ op }) => op === 'putIfAbsent')
    expect(creates).toHaveLength(17)
    expect(new Set(creates.map(({ key }) => key)).size).toBe(1)
    expect([test.backend.objects.size, test.remembers()]).toEqual([0, true])
    const calls = test.backend.faults.calls.length
    await test.run()
    expect(test.backend.faults.calls).toHaveLength(calls)
  })

  it.each([
    ['always', () => true],
    [
      'once too often',
      (
        (left) => () =>
          left-- > 0
      )(2),
    ],
  ])('that succeed %s are refused, and not remembered as good', async (_, succeeds) => {
    const backend = createMemoryBackend()
    backend.putIfAbsent = async (key, path) => {
      await backend.put(key, path)
      return succeeds()
    }
    const test = tried(backend)
    await expect(test.run()).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('mirror') as string,
    })
    expect(test.remembers()).toBe(false)
  })

  it('that are not answered are not judged, and tried at the next boot', async () => {
    const test = tried()
    test.backend.faults.failWhen(({ op }) => op === 'putIfAbsent')
    await test.run()
    expect(test.remembers()).toBe(false)
    test.backend.faults.heal()
    await test.run()
    expect(test.remembers()).toBe(true)
  })
})
