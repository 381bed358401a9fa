import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { objectStoreConfig, open as openRegistered, register, unregister, type Backend } from '@nexus/objectstore'
import { describeBackendContract, type ChangedConfig, type DescribeOptions } from '@nexus/objectstore-contract'
import { describeResumeContract, type ResumeRunner, type ResumeStore } from '@nexus/resume-contract'
import { openHexBackend } from './driver.js'

type Runner = ResumeRunner & Required<Pick<DescribeOptions, 'describe' | 'it'>>

const root = mkdtempSync(join(tmpdir(), 'nexus-outside-buckets-'))
process.once('exit', () => rmSync(root, { recursive: true, force: true }))

const newBucket = (): string => mkdtempSync(join(root, 'bucket-'))

/** Reads a bucket without the driver. */
const objectsOf = (bucket: string): Map<string, string> =>
  new Map(
    readdirSync(bucket, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.object'))
      .map((path) => [
        Buffer.from(path.slice(0, -'.object'.length).replaceAll('/', ''), 'hex').toString(),
        join(bucket, path),
      ]),
  )

const store: ResumeStore = {
  name: 'hex',
  register(label, wrap) {
    register(label, async (config, options) => wrap(await openRegistered({ ...config, backend: 'hex' }, options)))
    return () => unregister(label)
  },
  newBucket,
  objectStoreConfig: (backend, bucket, policy) => ({ backend, bucket, failure_policy: policy }),
  keys: async (bucket) => [...objectsOf(bucket).keys()],
  get: async (bucket, key) => readFileSync(objectsOf(bucket).get(key) ?? ''),
  exists: async (bucket, key) => objectsOf(bucket).has(key),
  crossProcess: true,
  childModule: new URL('./index.js', import.meta.url).href,
}

/** Both suites, under whatever runner it is given. */
export function defineSuites(runner: Runner): void {
  const open = (bucket: string, parts: ChangedConfig = {}): Promise<Backend> =>
    openHexBackend(objectStoreConfig({ backend: 'hex', bucket, ...parts }))
  const bucketOf = new Map<Backend, string>()
  const shared = new Map<string, string>()
  describeBackendContract(
    async () => {
      const bucket = newBucket()
      const backend = await open(bucket)
      bucketOf.set(backend, bucket)
      return backend
    },
    {
      ...runner,
      listProbeCount: 100,
      outOfProcess: true,
      // Two calls with one id are about one bucket.
      configured(parts, caseId) {
        const bucket = shared.get(caseId) ?? newBucket()
        shared.set(caseId, bucket)
        return open(bucket, parts)
      },
      missingBucket: () => open(join(root, 'missing')),
      removeBucket: (backend) => rmSync(bucketOf.get(backend) ?? '', { recursive: true }),
    },
  )
  describeResumeContract(store, runner)
}
