import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { describeBackendContract } from '@nexus/objectstore-contract'
import type { RequestFacts } from '@nexus/objectstore-emulators/faults'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { openS3Backend } from '../src/driver.ts'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'
import { describeOnGateway, gateway, writeCredentials } from './gateway.ts'

let emulated: EmulatedBucket
let cases = 0
let prefix = ''
/** Buckets that the backends of one case share. */
const shared = new Set<string>()

beforeAll(async () => {
  emulated = await openEmulatedBucket()
})

afterAll(() => emulated.remove())

describeBackendContract(
  async () => {
    emulated.emulator.createBucket(emulated.bucket)
    return emulated.open()
  },
  {
    describe,
    it,
    title: 's3 backend on the emulator',
    plant: (_backend, key, content) => emulated.emulator.plant(emulated.bucket, key, content),
    configured: ({ options, ...parts }, caseId) => {
      if (!shared.has(caseId)) emulated.emulator.createBucket(caseId)
      shared.add(caseId)
      return emulated.open(options, { bucket: caseId, ...parts })
    },
    missingBucket: () => emulated.open({}, { bucket: 'never-made' }),
    refused: () => emulated.open({}, { credentialsFile: writeCredentials('AKIAEXAMPLE', 'wrong') }),
    removeBucket: () => emulated.emulator.deleteBucket(emulated.bucket),
    lostAnswer: () => {
      const isCreate = ({ operation, key }: RequestFacts): boolean => operation === 'PutObject' && !key.endsWith('/')
      emulated.emulator.faults.add({ fault: { kind: 'lost-answer' }, times: 1, on: isCreate })
      return emulated.open()
    },
    cutDownloads: () => {
      const isDownload = ({ operation }: RequestFacts): boolean => operation === 'GetObject'
      emulated.emulator.faults.add({ fault: { kind: 'download-reset', afterBytes: 10 }, on: isDownload })
      return emulated.open({ max_attempts: 1 })
    },
    destroy: () => emulated.emulator.faults.clear(),
  },
)

describeBackendContract(
  async () => {
    prefix = `deploy+1/caf\u00e9/${++cases}`
    emulated.emulator.createBucket(emulated.bucket)
    // Neighbours of the prefix that must never show.
    await emulated.emulator.plant(emulated.bucket, `${prefix}-x/a`, 'not ours')
    await emulated.emulator.plant(emulated.bucket, 'deploy+1/b', 'not ours')
    return emulated.open({ checksums: 'when_supported' }, { prefix })
  },
  {
    describe,
    it,
    title: 's3 backend below a prefix, checksums as at Amazon',
    listProbeCount: 50,
    plant: (_backend, key, content) => emulated.emulator.plant(emulated.bucket, `${prefix}/${key}`, content),
  },
)

let bucket: string

describeBackendContract(
  async () => {
    bucket = (await gateway?.newBucket()) ?? ''
    const { endpoint = '', credentialsFile = '' } = gateway ?? {}
    const config = objectStoreConfig({ backend: 's3', bucket, endpoint, credentialsFile })
    return openS3Backend(config, { logger: silentLogger })
  },
  {
    describe: describeOnGateway,
    it,
    title: 's3 backend on a real store',
    plant: async (_backend, key, content) => void (await gateway?.client.putObject(bucket, key, Buffer.from(content))),
  },
)
