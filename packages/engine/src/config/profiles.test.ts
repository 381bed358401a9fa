import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { register, registered, unregister } from '@nexus/objectstore'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ObjectStoreSettings } from './engine-config.ts'
import { loadConfigFile } from './load.ts'

const configs = new URL('../../../../configs/', import.meta.url)
const env = {
  HOME: '/home/me',
  AWS_REGION: 'eu-central-1',
  NEXUS_BUCKET: 'my-bucket',
  AZURE_STORAGE_ACCOUNT: 'agents',
  NEXUS_ENDPOINT: 'http://127.0.0.1:9000',
}

/** What each profile says about the object store; every other shipped file must leave it alone. */
const STORES: Readonly<Record<string, Partial<ObjectStoreSettings>>> = {
  's3.yaml': { backend: 's3', bucket: 'my-bucket', prefix: 'nexus', region: 'eu-central-1', failurePolicy: 'degrade' },
  's3-compatible.yaml': {
    backend: 's3',
    endpoint: 'http://127.0.0.1:9000',
    region: 'eu-central-1',
    credentialsFile: '',
  },
  'azure.yaml': { backend: 'azure', bucket: 'my-bucket', credentialsFile: '', options: { account: 'agents' } },
  'gcs.yaml': { backend: 'gcs', bucket: 'my-bucket', credentialsFile: '' },
  'strict.yaml': { backend: 's3', failurePolicy: 'strict', staleLocal: 'refuse', onMixed: 'fail' },
  'versioned.yaml': { backend: 'fs', bucket: 'my-bucket', layout: 'versioned', ownership: 'claim' },
  'fs-demo.yaml': { backend: 'fs', bucket: '/home/me/.nexus-demo/bucket' },
}

/** Profiles of agents: they configure plugins and leave the object store alone. */
const AGENTS = ['openai-compatible.yaml', 'scripted.yaml']

describe('the shipped profiles', () => {
  const added: string[] = []
  beforeAll(() => {
    for (const name of ['azure', 'fs', 'gcs', 's3']) {
      if (registered(name)) continue
      register(name, () => {
        throw new Error('a profile is only loaded here')
      })
      added.push(name)
    }
  })
  afterAll(() => {
    for (const name of added) unregister(name)
  })

  it('are all there', () => {
    const shipped = readdirSync(configs).filter((name) => name.endsWith('.yaml'))
    expect(shipped.toSorted()).toEqual([...Object.keys(STORES), ...AGENTS, 'local.yaml'].toSorted())
  })

  it.each(readdirSync(configs).filter((name) => name.endsWith('.yaml')))('%s loads', async (name) => {
    // The strict profile leaves the choice of a backend to the environment, the versioned one has a default.
    const given = name === 'strict.yaml' ? { ...env, NEXUS_BACKEND: 's3' } : env
    const loaded = await loadConfigFile(fileURLToPath(new URL(name, configs)), { env: given, home: '/home/me' })
    const { objectStore } = loaded.config.core
    const expected = STORES[name]
    expect(expected === undefined ? objectStore : { ...objectStore, ...expected }).toEqual(objectStore)
    expect(objectStore === undefined).toBe(expected === undefined)
    expect(loaded.profile).toBe(name.replace('.yaml', ''))
  })
})
