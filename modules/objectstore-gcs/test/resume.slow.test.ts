import { register, unregister } from '@nexus/objectstore'
import { type GcsEmulator, openGcsEmulator } from '@nexus/objectstore-emulators/gcs'
import { describeResumeContract } from '@nexus/resume-contract'
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { openGcsBackend } from '../src/driver.ts'
import { plainClient, type PlainClient } from './plain-client.ts'

let emulator: GcsEmulator
let buckets = 0

beforeAll(async () => {
  // The children inherit it.
  vi.stubEnv('METADATA_SERVER_DETECTION', 'none')
  vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', '')
  emulator = await openGcsEmulator()
})

afterAll(async () => {
  await emulator.close()
  vi.unstubAllEnvs()
})

const client = (bucket: string): PlainClient => plainClient(emulator.url, bucket)

describeResumeContract(
  {
    name: 'gcs',
    register: (label, wrap) => {
      register(label, async (config, options) => wrap(await openGcsBackend(config, options)))
      return () => void unregister(label)
    },
    newBucket: () => {
      const bucket = `resume-${++buckets}`
      emulator.createBucket(bucket)
      return bucket
    },
    objectStoreConfig: (backend, bucket, policy) => ({
      backend,
      bucket,
      prefix: 'hosts/a+b',
      endpoint: emulator.url,
      failure_policy: policy,
    }),
    keys: (bucket) => client(bucket).keys(),
    get: async (bucket, key) => {
      const bytes = await client(bucket).get(key)
      if (bytes === undefined) throw new Error(`the bucket holds no ${key}`)
      return bytes
    },
    exists: async (bucket, key) => (await client(bucket).get(key)) !== undefined,
    crossProcess: true,
    childModule: new URL('../src/index.ts', import.meta.url).href,
  },
  { describe, it },
)
