import type { SuiteOptions } from '@nexus/objectstore-contract'
import { type Backend, hydrateObjects, objectStoreConfig } from '@nexus/objectstore'
import { MemoryBackend, openMemoryBackend, type StoredObject } from '../src/driver.ts'

const logger = { debug: drop, info: drop, warn: drop, error: drop }
function drop(): void {}

/** A memory backend whose every call fails as the class says. */
export function failing(errorClass: string): MemoryBackend {
  const backend = new MemoryBackend()
  backend.faults.failWhen(() => true, Object.assign(new Error(`injected: ${errorClass}`), { errorClass }))
  return backend
}

/** A memory backend over these objects that delivers half of each, as a store that declares the whole size. */
export function cutting(objects: Map<string, StoredObject> = new Map()): Backend {
  const whole = new MemoryBackend({ objects })
  const half = new Map<string, StoredObject>()
  const cut = new MemoryBackend({ objects: half })
  const refresh = (): void => {
    for (const [key, { bytes, modTime }] of objects) {
      half.set(key, { bytes: bytes.subarray(0, bytes.length / 2), modTime })
    }
  }
  return Object.assign(new MemoryBackend({ objects }), {
    hydrate: async (prefix: string, dir: string) => {
      refresh()
      await hydrateObjects(await whole.list(prefix), prefix, dir, async ({ key, size }, tempPath) => {
        await cut.get(key, tempPath)
        return size
      })
    },
    get: () => Promise.reject(Object.assign(new Error('cut'), { errorClass: 'temporary' })),
  })
}

/** Every circumstance that a store in memory can be brought into. */
export const circumstances: SuiteOptions = {
  configured: (parts, caseId) =>
    openMemoryBackend(objectStoreConfig({ backend: 'memory-test', bucket: caseId, ...parts }), { logger }),
  missingBucket: () => failing('permanent'),
  refused: () => failing('permission'),
  removeBucket: (backend) => {
    const gone = Object.assign(new Error('injected: the bucket is gone'), { errorClass: 'permanent' })
    ;(backend as MemoryBackend).faults.failWhen(() => true, gone)
  },
  lostAnswer: () => {
    const backend = new MemoryBackend()
    backend.faults.applyThenFail(1)
    return backend
  },
  cutDownloads: () => cutting(),
}
