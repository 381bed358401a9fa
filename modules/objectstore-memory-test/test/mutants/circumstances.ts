import type { SuiteOptions } from '@nexus/objectstore-contract'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Backend, ObjectNotFoundError } from '@nexus/objectstore'
import { MemoryBackend, type StoredObject } from '../../src/driver.ts'
import { cutting, failing } from '../circumstances.ts'
import { type Mutant, mutant } from './mutant.ts'

const MISSING = 'a missing bucket is an error of every read, and no read of it is a miss'
const REFUSED = 'a refusal is an error of every call, and no read of it is a miss'
const NEVER_MADE = 'no bucket is ever made'
const TAKEN_AWAY = 'a bucket that is taken away is an error, and is not made again'
const LOST = 'putIfAbsent whose answer is lost does not say that the key was taken'
const CUT = 'a download that is cut is never taken for the object'
const PREFIX = 'prefix keeps two stores of one bucket apart'
const OPTION = 'an unknown option is refused by name'
const STREAMS = 'put and hydrate stream a large file'

/** A driver that is healthy until its store is in a circumstance. */
function under(
  name: string,
  killedBy: readonly string[],
  options: SuiteOptions,
  change: Partial<Backend> = {},
): Mutant {
  return { ...mutant(name, killedBy, () => change), options }
}

const empty: Partial<Backend> = { list: async () => [], listNames: async () => [] }
const missing: Partial<Backend> = { get: (key) => Promise.reject(new ObjectNotFoundError(key)) }

/** A bucket that comes into being with the first put. */
function selfMade(): Backend {
  const made = new MemoryBackend()
  const none = failing('permanent')
  let exists = false
  const now = (): MemoryBackend => (exists ? made : none)
  return {
    hydrate: (...args) => now().hydrate(...args),
    get: (...args) => now().get(...args),
    list: (...args) => now().list(...args),
    delete: (...args) => now().delete(...args),
    flush: (...args) => now().flush(...args),
    put: async (...args) => {
      exists = true
      await made.put(...args)
    },
  }
}

/** What removing the bucket does to these mutants: their objects are gone, and nothing says so. */
const forget = (backend: Backend): void => (backend as MemoryBackend).objects.clear()

/** Faults that only show when something is wrong with the store, or with the configuration. */
export const circumstanceMutants: readonly Mutant[] = [
  under('a missing bucket lists as empty', [MISSING], {
    missingBucket: () => Object.assign(failing('permanent'), empty),
  }),
  under('a missing bucket hydrates as empty', [MISSING], {
    missingBucket: () => Object.assign(failing('permanent'), { hydrate: async () => undefined }),
  }),
  under('a missing bucket is a missing object', [MISSING], {
    missingBucket: () => Object.assign(failing('permanent'), missing),
  }),
  under('a put makes the bucket', [NEVER_MADE], { missingBucket: selfMade }),
  under('a refusal lists as empty', [REFUSED], { refused: () => Object.assign(failing('permission'), empty) }),
  under('a refusal is a missing object', [REFUSED], { refused: () => Object.assign(failing('permission'), missing) }),
  under('a refusal is classified as not found', [REFUSED], { refused: () => failing('not-found') }),
  under('a bucket that is gone reads as empty', [TAKEN_AWAY], { removeBucket: forget }),
  under('a lost answer is asked for again', [LOST], {
    lostAnswer: () => {
      const backend = new MemoryBackend()
      backend.faults.applyThenFail(1, new Error('socket hang up'))
      return Object.assign(new MemoryBackend(), {
        putIfAbsent: (key: string, path: string) =>
          backend.putIfAbsent(key, path).catch(() => backend.putIfAbsent(key, path)),
      })
    },
  }),
  under('a lost answer is temporary', [LOST], {
    lostAnswer: () => {
      const backend = new MemoryBackend()
      backend.faults.applyThenFail(1, Object.assign(new Error('no answer'), { errorClass: 'temporary' }))
      return backend
    },
  }),
  under('what arrived is taken for the size', [CUT], {
    cutDownloads: () => {
      const backend = new MemoryBackend()
      return Object.assign(backend, {
        hydrate: async (prefix: string, dir: string) => {
          for (const { key } of await backend.list(prefix)) {
            const bytes = backend.objects.get(key)?.bytes ?? Buffer.of()
            const half = bytes.subarray(0, bytes.length / 2)
            const target = new MemoryBackend({ objects: new Map([[key, { bytes: half, modTime: new Date() }]]) })
            await target.hydrate(prefix, dir)
          }
        },
      })
    },
  }),
  under('a cut get is written in place', [CUT], {
    cutDownloads: () =>
      Object.assign(cutting(), {
        get: async (_key: string, path: string) => {
          writeFileSync(path, 'half')
          throw new Error('cut')
        },
      }),
  }),
  under('the prefix is ignored', [PREFIX], { configured: shared(() => '') }),
  under('the prefix is put before keys as it is', [PREFIX], {
    configured: (parts, caseId) => {
      const backend = shared(() => '')(parts, caseId)
      const raw = parts.prefix ?? ''
      return Object.assign(new MemoryBackend(), {
        put: (key: string, path: string) => backend.put(raw + key, path),
        delete: (key: string) => backend.delete(raw + key),
        list: async () =>
          (await backend.list(''))
            .filter(({ key }) => key.startsWith(raw))
            .map((object) => ({ ...object, key: object.key.slice(raw.length) })),
      })
    },
  }),
  under('unknown options are ignored', [OPTION], { configured: shared((prefix) => prefix) }),
  under(
    'put reads the whole file into memory',
    [STREAMS],
    { outOfProcess: true },
    {
      put: async (_key, path) => {
        const bytes = readFileSync(path)
        await sleep(20)
        if (bytes.length !== statSync(path).size) throw new Error('changed')
      },
    },
  ),
]

function shared(prefixOf: (prefix: string) => string): (parts: { prefix?: string }, caseId: string) => MemoryBackend {
  const buckets = new Map<string, Map<string, StoredObject>>()
  return (parts, caseId) => {
    const objects = buckets.get(caseId) ?? new Map<string, StoredObject>()
    buckets.set(caseId, objects)
    return new MemoryBackend({ objects, prefix: prefixOf(parts.prefix ?? '') })
  }
}
