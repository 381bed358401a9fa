import { register, unregister } from '@nexus/objectstore'
import { EMULATOR_CREDENTIALS, openS3Emulator, type S3Emulator } from '@nexus/objectstore-emulators/s3'
import { describeResumeContract, type ResumeStore } from '@nexus/resume-contract'
import type { Client } from 'minio'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { openS3Backend } from '../src/driver.ts'
import { describeOnGateway, gateway, otherClient, writeCredentials } from './gateway.ts'
import { bytesOf, existsIn, keysOf } from './independent-client.ts'

interface Store {
  endpoint: string
  credentialsFile: string
  client: Client
  newBucket: () => Promise<string>
}

let emulator: S3Emulator
let emulated: Store

beforeAll(async () => {
  emulator = await openS3Emulator()
  const { accessKeyId, secretAccessKey } = EMULATOR_CREDENTIALS
  const client = otherClient(emulator.url, accessKeyId, secretAccessKey)
  let buckets = 0
  emulated = {
    endpoint: emulator.url,
    credentialsFile: writeCredentials(accessKeyId, secretAccessKey),
    client,
    newBucket: async () => {
      const bucket = `resume-${buckets++}`
      await client.makeBucket(bucket)
      return bucket
    },
  }
})

afterAll(() => emulator.close())

function resumeStore(store: () => Store): ResumeStore {
  return {
    name: 's3',
    register(label, wrap) {
      register(label, async (config, options) => wrap(await openS3Backend(config, options)))
      return () => unregister(label)
    },
    newBucket: () => store().newBucket(),
    objectStoreConfig: (backend, bucket, policy) => ({
      backend,
      bucket,
      prefix: 'prod/eu',
      endpoint: store().endpoint,
      credentials_file: store().credentialsFile,
      failure_policy: policy,
    }),
    keys: (bucket) => keysOf(store().client, bucket),
    get: (bucket, key) => bytesOf(store().client, bucket, key),
    exists: (bucket, key) => existsIn(store().client, bucket, key),
    crossProcess: true,
    childModule: new URL('../src/index.ts', import.meta.url).href,
  }
}

describe('on the emulator', () => {
  describeResumeContract(
    resumeStore(() => emulated),
    { describe, it },
  )
})

describeOnGateway('on a real store', () => {
  describeResumeContract(
    resumeStore(() => gateway as Store),
    { describe, it },
  )
})
