import { register } from '@nexus/objectstore'
import { openMemoryBackend } from './driver.ts'

export {
  type Call,
  type CallPredicate,
  type Capability,
  createMemoryBackend,
  type FaultClock,
  Faults,
  MemoryBackend,
  type MemoryBackendOptions,
  memoryBucket,
  type Op,
  openMemoryBackend,
  registerMemoryBackend,
  type StoredObject,
  withoutCapabilities,
} from './driver.ts'

// A name that doesn't get into a production configuration by accident.
register('memory-test', openMemoryBackend)
