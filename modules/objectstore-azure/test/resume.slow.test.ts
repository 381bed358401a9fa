import { register, unregister } from '@nexus/objectstore'
import { ACCOUNT_KEY } from '@nexus/objectstore-emulators/azure'
import { describeResumeContract } from '@nexus/resume-contract'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { openAzureBackend } from '../src/driver.ts'
import { openTestStore, type TestStore } from './test-container.ts'

let store: TestStore

beforeAll(async () => {
  store = await openTestStore()
})

afterAll(() => store.remove())

describeResumeContract(
  {
    name: 'azure',
    register: (label, wrap) => {
      register(label, async (config, options) => wrap(await openAzureBackend(config, options)))
      return () => void unregister(label)
    },
    newBucket: () => store.newContainer(),
    objectStoreConfig: (backend, bucket, policy) => ({
      backend,
      bucket,
      prefix: 'hosts/a+b',
      endpoint: store.emulator.url,
      failure_policy: policy,
      options: { account_key: ACCOUNT_KEY },
    }),
    keys: (bucket) => store.emulator.client.keys(bucket),
    get: async (bucket, key) => {
      const bytes = await store.emulator.client.get(bucket, key)
      if (bytes === undefined) throw new Error(`the container holds no ${key}`)
      return bytes
    },
    exists: async (bucket, key) => (await store.emulator.client.get(bucket, key)) !== undefined,
    crossProcess: true,
    childModule: new URL('../src/index.ts', import.meta.url).href,
  },
  { describe, it },
)
