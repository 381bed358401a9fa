import { register, unregister } from '@nexus/objectstore'
import { describeResumeContract } from '@nexus/resume-contract'
import { describe, it } from 'vitest'
import { memoryBucket, openMemoryBackend } from '../src/driver.ts'

let buckets = 0

describeResumeContract(
  {
    name: 'memory-test',
    register(label, wrap) {
      register(label, (config, options) => wrap(openMemoryBackend(config, options)))
      return () => unregister(label)
    },
    newBucket: () => `resume-${(buckets += 1)}`,
    objectStoreConfig: (backend, bucket, policy) => ({ backend, bucket, failure_policy: policy }),
    keys: async (bucket) => [...memoryBucket(bucket).keys()],
    get: async (bucket, key) => memoryBucket(bucket).get(key)?.bytes ?? Buffer.alloc(0),
    exists: async (bucket, key) => memoryBucket(bucket).has(key),
  },
  { describe, it },
)
