import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { describeBackendContract } from '@nexus/objectstore-contract'
import { type GcsEmulator, openGcsEmulator } from '@nexus/objectstore-emulators/gcs'
import type { RequestFacts } from '@nexus/objectstore-emulators/faults'
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { type GcsBackend, openGcsBackend } from '../src/driver.ts'
import { plainClient } from './plain-client.ts'

let emulator: GcsEmulator
let buckets = 0
const bucketOf = new WeakMap<object, string>()
/** Buckets that the backends of one case share. */
const shared = new Map<string, string>()

beforeAll(async () => {
  vi.stubEnv('METADATA_SERVER_DETECTION', 'none')
  vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', '')
  emulator = await openGcsEmulator()
})

afterAll(async () => {
  await emulator.close()
  vi.unstubAllEnvs()
})

function newBucket(): string {
  const bucket = `bucket-${++buckets}`
  emulator.createBucket(bucket)
  return bucket
}

function open(prefix: string, options: Record<string, unknown> = {}): Promise<GcsBackend> {
  return openIn(newBucket(), prefix, options)
}

async function openIn(bucket: string, prefix = '', options: Record<string, unknown> = {}): Promise<GcsBackend> {
  const config = objectStoreConfig({ backend: 'gcs', bucket, prefix, endpoint: emulator.url, options })
  const backend = await openGcsBackend(config, { logger: silentLogger })
  bucketOf.set(backend, bucket)
  return backend
}

async function destroy(backend: object): Promise<void> {
  emulator.faults.clear()
  await (backend as GcsBackend).close()
  emulator.deleteBucket(bucketOf.get(backend) ?? '')
}

function planting(prefix: string) {
  return async (backend: object, key: string, content: string | Uint8Array): Promise<void> => {
    await plainClient(emulator.url, bucketOf.get(backend) ?? '').plant(`${prefix}${key}`, content)
  }
}

describeBackendContract(() => open(''), {
  describe,
  it,
  title: 'gcs backend',
  destroy,
  plant: planting(''),
  configured({ prefix, options }, caseId) {
    const known = shared.get(caseId) ?? newBucket()
    shared.set(caseId, known)
    return openIn(known, prefix, options)
  },
  missingBucket: () => openIn('never-made'),
  refused() {
    emulator.faults.add({ fault: { kind: 'status', status: 403, code: 'forbidden' } })
    return openIn(newBucket())
  },
  removeBucket: (backend) => emulator.deleteBucket(bucketOf.get(backend) ?? ''),
  lostAnswer() {
    const isCreate = ({ operation, key }: RequestFacts): boolean => operation === 'objects.insert' && !key.endsWith('/')
    emulator.faults.add({ fault: { kind: 'lost-answer' }, times: 1, on: isCreate })
    return openIn(newBucket())
  },
  cutDownloads() {
    const isDownload = ({ operation }: RequestFacts): boolean => operation === 'objects.download'
    emulator.faults.add({ fault: { kind: 'download-reset', afterBytes: 0 }, on: isDownload })
    return openIn(newBucket(), '', { retry_timeout_ms: 200 })
  },
})

describeBackendContract(
  async () => {
    const options = { resumable_threshold: 1, chunk_size: 256 * 1024 }
    const backend = await open('deploy+1/caf\u00e9', options)
    // Neighbours of the prefix that must never show.
    const client = plainClient(emulator.url, bucketOf.get(backend) ?? '')
    await client.plant('deploy+1/caf\u00e9-x/a', 'not ours')
    await client.plant('deploy+1/b', 'not ours')
    return backend
  },
  {
    describe,
    it,
    title: 'gcs backend below a prefix, in small chunks',
    listProbeCount: 50,
    destroy,
    plant: planting('deploy+1/caf\u00e9/'),
  },
)
