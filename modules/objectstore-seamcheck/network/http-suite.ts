import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { objectStoreConfig, type Backend, type ObjectStoreConfig } from '@nexus/objectstore'
import { describeBackendContract, type DescribeOptions } from '@nexus/objectstore-contract'
import { openHttpBackend } from './http-driver.ts'
import { startTinyStore, TOKEN } from './tiny-store.ts'

function credentials(token: string): string {
  const path = join(mkdtempSync(join(tmpdir(), 'nexus-tiny-')), 'token')
  writeFileSync(path, token)
  return path
}

/** The suite on a store that every case has a prefix of its own in, as in a real bucket. */
export async function defineHttpSuite(runner: Pick<DescribeOptions, 'describe' | 'it'>): Promise<void> {
  const credentialsFile = credentials(TOKEN)
  const store = await startTinyStore()
  const open = (parts: Partial<ObjectStoreConfig>, endpoint = store.endpoint): Backend =>
    openHttpBackend(objectStoreConfig({ backend: 'http', bucket: 'b', endpoint, credentialsFile, ...parts }))
  const prefixes = new WeakMap<Backend, string>()
  let cases = 0
  const newBackend = (parts: Partial<ObjectStoreConfig> = {}): Backend => {
    const prefix = `case-${++cases}`
    const backend = open({ prefix, ...parts })
    prefixes.set(backend, prefix)
    return backend
  }
  describeBackendContract(() => newBackend(), {
    ...runner,
    title: 'backend contract over HTTP',
    listProbeCount: 250,
    plant: (backend, key, content) => void store.objects.set(`${prefixes.get(backend)}/${key}`, Buffer.from(content)),
    configured: ({ prefix = '', options = {} }, caseId) =>
      open({ prefix: [caseId, prefix].filter(Boolean).join('/'), options }),
    missingBucket: () => newBackend({ bucket: 'missing' }),
    refused: () => newBackend({ credentialsFile: credentials('not the token') }),
    lostAnswer: async () => {
      const other = await startTinyStore()
      other.loseNextAnswer()
      return open({}, other.endpoint)
    },
    cutDownloads: async () => {
      const other = await startTinyStore()
      other.cutDownloads()
      return open({ options: { max_attempts: 2 } }, other.endpoint)
    },
  })
}
