import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { objectStoreConfig, type ObjectStoreConfig } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseS3Options } from '../options.ts'
import { acquireClients, type ClientsLease } from './shared-clients.ts'

let directory: string
let credentialsFile: string
const leases: ClientsLease[] = []

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nexus-s3-shared-'))
  credentialsFile = join(directory, 'credentials')
  writeFileSync(credentialsFile, '[default]\naws_access_key_id = a\naws_secret_access_key = b\n')
})

afterEach(() => {
  for (const lease of leases.splice(0)) lease.release()
  rmSync(directory, { recursive: true })
})

async function acquire(parts: Partial<ObjectStoreConfig> = {}): Promise<ClientsLease> {
  const base = { backend: 's3', bucket: 'b', endpoint: 'http://127.0.0.1:1', credentialsFile }
  const lease = await acquireClients(parseS3Options(objectStoreConfig({ ...base, ...parts })))
  leases.push(lease)
  return lease
}

describe('backends', () => {
  it('of one store share clients whatever their bucket, prefix and storage class', async () => {
    const [first, second] = await Promise.all([acquire(), acquire({ bucket: 'c', prefix: 'p' })])
    const third = await acquire({ options: { storage_class: 'STANDARD_IA' } })
    expect(second.shared).toBe(first.shared)
    expect(third.shared).toBe(first.shared)
  })

  it.each<[string, Partial<ObjectStoreConfig>]>([
    ['another endpoint', { endpoint: 'http://127.0.0.1:2' }],
    ['another region', { region: 'eu-west-1' }],
    ['other limits', { options: { concurrency: 3 } }],
    ['other timeouts', { options: { idle_timeout_ms: 1 } }],
    ['a proxy', { options: { proxy: 'http://127.0.0.1:3' } }],
  ])('with %s have clients of their own', async (_name, parts) => {
    expect((await acquire(parts)).shared).not.toBe((await acquire()).shared)
  })

  it('do not share credentials of a file that was written anew', async () => {
    const first = await acquire()
    writeFileSync(credentialsFile, '[default]\naws_access_key_id = another\naws_secret_access_key = b\n')
    expect((await acquire()).shared).not.toBe(first.shared)
  })

  it('keep the clients until the last one gives its share back', async () => {
    const first = await acquire()
    const second = await acquire()
    const { shared } = first
    leases.length = 0
    first.release()
    const third = await acquire()
    expect(third.shared).toBe(shared)
    leases.length = 0
    second.release()
    third.release()
    expect((await acquire()).shared).not.toBe(shared)
  })
})
