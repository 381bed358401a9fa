import { homedir } from 'node:os'
import { objectStoreConfig, type ObjectStoreConfig } from '@nexus/objectstore'
import { describe, expect, it } from 'vitest'
import { parseGcsOptions } from './options.ts'

function parse(parts: Partial<ObjectStoreConfig>): ReturnType<typeof parseGcsOptions> {
  return parseGcsOptions({ ...objectStoreConfig({ backend: 'gcs', bucket: 'my-bucket' }), ...parts })
}

const KMS_KEY = 'projects/p/locations/l/keyRings/r/cryptoKeys/k'

describe('parseGcsOptions', () => {
  it('fills in what is not configured', () => {
    expect(parse({})).toEqual({
      bucket: 'my-bucket',
      prefix: '',
      apiUrl: 'https://storage.googleapis.com/storage/v1',
      uploadUrl: 'https://storage.googleapis.com/upload/storage/v1',
      customEndpoint: false,
      credentialsFile: '',
      storageClass: undefined,
      kmsKeyName: undefined,
      userProject: undefined,
      concurrency: 16,
      resumableThresholdBytes: 8 * 1024 * 1024,
      chunkBytes: 16 * 1024 * 1024,
      idleTimeoutMs: 15_000,
      retryTimeoutMs: 20_000,
    })
  })

  it('reads every option', () => {
    const options = {
      storage_class: 'NEARLINE',
      kms_key_name: KMS_KEY,
      user_project: 'payer',
      concurrency: 3,
      resumable_threshold: 0,
      chunk_size: 262_144,
      idle_timeout_ms: 100,
      retry_timeout_ms: 0,
    }
    expect(parse({ options, prefix: 'a/b', credentialsFile: '/k', region: 'eu' })).toMatchObject({
      prefix: 'a/b',
      credentialsFile: '/k',
      storageClass: 'NEARLINE',
      kmsKeyName: KMS_KEY,
      userProject: 'payer',
      concurrency: 3,
      resumableThresholdBytes: 0,
      chunkBytes: 262_144,
      idleTimeoutMs: 100,
      retryTimeoutMs: 0,
    })
  })

  it.each([
    ['http://localhost:4443', 'http://localhost:4443/storage/v1', 'http://localhost:4443/upload/storage/v1'],
    ['http://localhost:4443/', 'http://localhost:4443/storage/v1', 'http://localhost:4443/upload/storage/v1'],
    ['https://h/storage/v1/', 'https://h/storage/v1', 'https://h/upload/storage/v1'],
    ['https://h/gcs/storage/v1', 'https://h/gcs/storage/v1', 'https://h/gcs/upload/storage/v1'],
    ['https://h/own', 'https://h/own', 'https://h/upload/own'],
  ])('adds the path of the API to endpoint %s when it has none', (endpoint, apiUrl, uploadUrl) => {
    expect(parse({ endpoint })).toMatchObject({ apiUrl, uploadUrl, customEndpoint: true })
  })

  it.each<[string, Partial<ObjectStoreConfig>]>([
    ['bucket', { bucket: '' }],
    ['bucket', { bucket: 'gs://my-bucket' }],
    ['bucket', { bucket: 'My_Bucket' }],
    ['bucket', { bucket: 'a/b' }],
    ['bucket', { bucket: '..' }],
    ['prefix', { prefix: '/a' }],
    ['prefix', { prefix: 'a//b' }],
    ['endpoint', { endpoint: 'localhost:4443' }],
    ['endpoint', { endpoint: 'ftp://localhost' }],
    ['endpoint', { endpoint: 'http://user:pass@localhost' }],
    ['endpoint', { endpoint: 'http://localhost/?x=1' }],
    ['options.storageclass', { options: { storageclass: 'STANDARD' } }],
    ['options.storage_class', { options: { storage_class: 'standard' } }],
    ['options.kms_key_name', { options: { kms_key_name: 'key' } }],
    ['options.user_project', { options: { user_project: '' } }],
    ['options.concurrency', { options: { concurrency: 0 } }],
    ['options.concurrency', { options: { concurrency: '16' } }],
    ['options.resumable_threshold', { options: { resumable_threshold: -1 } }],
    ['options.chunk_size', { options: { chunk_size: 1_000_000 } }],
    ['options.chunk_size', { options: { chunk_size: 0 } }],
    ['options.idle_timeout_ms', { options: { idle_timeout_ms: 1 } }],
    ['options.retry_timeout_ms', { options: { retry_timeout_ms: 1.5 } }],
    ['options.__proto__', { options: JSON.parse('{"__proto__": 1}') as Record<string, unknown> }],
  ])('refuses a wrong %s, naming it', (key, parts) => {
    expect(() => parse(parts)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', key: `core.object_store.${key}` }),
    )
  })

  it('makes the path of the key absolute', () => {
    expect(parse({ credentialsFile: '~/key.json' }).credentialsFile).toBe(`${homedir()}/key.json`)
    expect(parse({ credentialsFile: 'a/../key.json' }).credentialsFile).toBe(`${process.cwd()}/key.json`)
  })

  it('names the option that was meant, and quotes no value', () => {
    expect(() => parse({ options: { storageclass: 's3cret' } })).toThrow(/did you mean storage_class\?(?!.*s3cret)/)
    expect(() => parse({ endpoint: 'http://u:s3cret@h' })).toThrow(/^(?!.*s3cret)/)
  })
})
