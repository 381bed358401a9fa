import { type Logger, type ObjectStoreConfig, parseOptions, register, unregister } from '@nexus/objectstore'
import { createMemoryBackend, MemoryBackend, type MemoryBackendOptions, type StoredObject } from './memory-backend.ts'

export { type Call, type CallPredicate, type FaultClock, Faults, type Op } from './faults.ts'
export { createMemoryBackend, MemoryBackend, type MemoryBackendOptions, type StoredObject } from './memory-backend.ts'
export { type Capability, withoutCapabilities } from './without-capabilities.ts'

// On globalThis, so that two copies of this module in one process, and so two engines, share the buckets.
const BUCKETS_KEY = Symbol.for('nexus.objectstore-memory-test.buckets/1')

/** The process-wide bucket of that name by raw key, made when it is first asked for. */
export function memoryBucket(name: string): Map<string, StoredObject> {
  const holder = globalThis as unknown as Record<symbol, Map<string, Map<string, StoredObject>> | undefined>
  const buckets = (holder[BUCKETS_KEY] ??= new Map())
  let bucket = buckets.get(name)
  if (bucket === undefined) buckets.set(name, (bucket = new Map()))
  return bucket
}

/**
 * Opens a memory backend on the named process-wide bucket, and warns: everything in it is gone when the process ends.
 *
 * @throws NexusError `INVALID_ARGUMENT` for any option, since there is none
 */
export function openMemoryBackend(config: ObjectStoreConfig, { logger }: { logger: Logger }): MemoryBackend {
  parseOptions('memory-test', config.options, {})
  logger.warn(
    { backend: config.backend, bucket: config.bucket },
    'this object store is memory of this process and for tests only: nothing in it survives',
  )
  return new MemoryBackend({ objects: memoryBucket(config.bucket), prefix: config.prefix })
}

/**
 * Registers one memory backend under a name, for a test that wants to inject faults and look at the objects while an engine
 * opens it by configuration. The configured prefix is heeded, the bucket is always this one.
 */
export function registerMemoryBackend(
  name: string,
  options: MemoryBackendOptions = {},
): { backend: MemoryBackend; unregister: () => void } {
  const backend = createMemoryBackend(options)
  register(name, (config) => (config.prefix === '' ? backend : backend.withPrefix(config.prefix)))
  return {
    backend,
    unregister: () => {
      unregister(name)
    },
  }
}
