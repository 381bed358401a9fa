import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open, register, unregister } from '@nexus/objectstore'
import { describeResumeContract } from '@nexus/resume-contract'
import { afterAll, describe, it } from 'vitest'
import '../src/index.ts'

const root = mkdtempSync(join(tmpdir(), 'nexus-fs-resume-'))

afterAll(() => rmSync(root, { recursive: true }))

/** The keys as anybody reads them off the directory: every file that is not one of the driver's own. */
function keysOf(bucket: string): string[] {
  return readdirSync(bucket, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(bucket.length + 1))
    .filter((path) => !path.includes('\\'))
}

describeResumeContract(
  {
    name: 'fs',
    register(label, wrap) {
      register(label, async (config, options) => wrap(await open({ ...config, backend: 'fs' }, options)))
      return () => unregister(label)
    },
    newBucket: () => mkdtempSync(join(root, 'bucket-')),
    objectStoreConfig: (backend, bucket, policy) => ({ backend, bucket, failure_policy: policy }),
    keys: async (bucket) => keysOf(bucket),
    get: (bucket, key) => readFile(join(bucket, key)),
    exists: async (bucket, key) => keysOf(bucket).includes(key),
    crossProcess: true,
    childModule: new URL('../src/index.ts', import.meta.url).href,
  },
  { describe, it },
)
