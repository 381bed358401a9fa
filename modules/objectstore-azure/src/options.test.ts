import { objectStoreConfig, type ObjectStoreConfig } from '@nexus/objectstore'
import { describe, expect, it } from 'vitest'
import { type AzureOptions, parseAzureOptions } from './options.ts'

type Parts = Partial<ObjectStoreConfig>

function parse(parts: Parts = {}): AzureOptions {
  const { options, ...rest } = parts
  const config = objectStoreConfig({ backend: 'azure', bucket: 'sessions', options: { account: 'agents', ...options } })
  // Past the checks of the helper, as a YAML file would come.
  return parseAzureOptions({ ...config, ...rest })
}

describe('the configuration', () => {
  it('needs a container and an account, and has a default for the rest', () => {
    expect(parse()).toEqual({
      container: 'sessions',
      prefix: '',
      account: 'agents',
      serviceUrl: 'https://agents.blob.core.windows.net',
      credentials: { kind: 'identity', clientId: undefined },
      accessTier: undefined,
      encryptionScope: undefined,
      pageSize: 5000,
      concurrency: 16,
      blockThresholdBytes: 16 * 1024 * 1024,
      blockBytes: 8 * 1024 * 1024,
      idleTimeoutMs: 15_000,
      retryTimeoutMs: 20_000,
    })
  })

  it.each([
    ['https://agents.blob.core.chinacloudapi.cn/', 'agents', 'https://agents.blob.core.chinacloudapi.cn'],
    ['http://127.0.0.1:10000/devstoreaccount1', 'devstoreaccount1', 'http://127.0.0.1:10000/devstoreaccount1'],
  ])('takes the account from the endpoint %s', (endpoint, account, serviceUrl) => {
    expect(parse({ endpoint, options: { account: undefined } })).toMatchObject({ account, serviceUrl })
  })

  it('leaves account and address to a connection string, and to a file that may hold one', () => {
    const nothing = { account: '', serviceUrl: '' }
    expect(parse({ options: { account: undefined, connection_string: 'c' } })).toMatchObject(nothing)
    expect(parse({ credentialsFile: '/f', options: { account: undefined } })).toMatchObject(nothing)
  })

  it.each<[string, Parts]>([
    ['bucket', { bucket: '' }],
    ['bucket', { bucket: 'Upper' }],
    ['bucket', { bucket: 'two--dashes' }],
    ['bucket', { bucket: 'ab' }],
    ['bucket', { bucket: 'a'.repeat(64) }],
    ['prefix', { prefix: 'a/../b' }],
    ['endpoint', { endpoint: 'not a url' }],
    ['endpoint', { endpoint: 'https://user:word@host/' }],
    ['endpoint', { endpoint: 'https://host/?sv=1&sig=x' }],
    ['endpoint', { endpoint: 'https://host/', options: { account: undefined, connection_string: 'c' } }],
    ['credentials_file', { credentialsFile: '/f', options: { sas_token: 's' } }],
    ['options.account', { options: { account: undefined } }],
    ['options.account', { options: { account: undefined, account_key: 'k' } }],
    ['options.account', { options: { account: 'No' } }],
    ['options.account', { options: { connection_string: 'c' } }],
    ['options.sas_token', { options: { account_key: 'k', sas_token: 's' } }],
    ['options.access_tier', { options: { access_tier: 'Archive' } }],
    ['options.page_size', { options: { page_size: 5001 } }],
    ['options.block_size', { options: { block_size: 1 } }],
    ['options.page_sise', { options: { page_sise: 1 } }],
  ])('names %s when that is wrong', (key, parts) => {
    expect(() => parse(parts)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', key: `core.object_store.${key}` }),
    )
  })
})
