import { objectStoreConfig, type ObjectStoreConfig } from '@nexus/objectstore'
import { describe, expect, it } from 'vitest'
import { parseS3Options, type S3Options } from './options.ts'

function parse(options: Record<string, unknown> = {}, parts: Partial<ObjectStoreConfig> = {}): S3Options {
  return parseS3Options(objectStoreConfig({ backend: 's3', bucket: 'b', region: 'eu-west-1', options, ...parts }))
}

describe('the addressing', () => {
  it('is virtual hosts at Amazon, and leaves checksums to the SDK', () => {
    expect(parse()).toMatchObject({
      region: 'eu-west-1',
      forcePathStyle: false,
      endpoint: undefined,
      checksums: undefined,
    })
  })

  it('is paths, us-east-1 and checksums only when required with an endpoint', () => {
    const options = parse({}, { endpoint: 'https://s3.example.org:9000', region: '' })
    expect(options).toMatchObject({ region: 'us-east-1', forcePathStyle: true, checksums: 'when_required' })
    expect(options.endpoint?.href).toBe('https://s3.example.org:9000/')
  })

  it('can be chosen', () => {
    const chosen = parse({ force_path_style: false, checksums: 'when_supported' }, { endpoint: 'http://x' })
    expect(chosen).toMatchObject({ forcePathStyle: false, checksums: 'when_supported' })
  })
})

describe('a wrong configuration', () => {
  it.each<[string, Record<string, unknown>, Partial<ObjectStoreConfig>]>([
    ['bucket', {}, { bucket: '' }],
    ['bucket', {}, { bucket: 'with space' }],
    ['bucket', {}, { bucket: '../up' }],
    ['bucket', {}, { bucket: 'my-bucket/sub' }],
    ['endpoint', {}, { endpoint: 'http://:password@store.example.org' }],
    ['bucket', {}, { bucket: 's3://my-bucket' }],
    ['region', {}, { region: '' }],
    ['endpoint', {}, { endpoint: 's3.example.org' }],
    ['endpoint', {}, { endpoint: 'ftp://s3.example.org' }],
    ['endpoint', {}, { endpoint: 'https://user:secret@s3.example.org' }],
    ['options.storage_clas', { storage_clas: 'GLACIER' }, {}],
    ['options.storage_class', { storage_class: '' }, {}],
    ['options.server_side_encryption', { server_side_encryption: 'rot13' }, {}],
    ['options.kms_key_id', { kms_key_id: 'k', server_side_encryption: 'AES256' }, {}],
    ['options.proxy', { proxy: 'proxy:3128' }, {}],
    ['options.ca_file', { ca_file: 1 }, {}],
    ['options.checksums', { checksums: true }, {}],
    ['options.force_path_style', { force_path_style: 'yes' }, {}],
    ['options.concurrency', { concurrency: 0 }, {}],
    ['options.max_attempts', { max_attempts: 11 }, {}],
    ['options.connect_timeout_ms', { connect_timeout_ms: -1 }, {}],
    ['options.idle_timeout_ms', { idle_timeout_ms: '20s' }, {}],
    ['options.part_size_mib', { part_size_mib: 4 }, {}],
    ['options.state_directory', { state_directory: [] }, {}],
  ])('is refused, naming %s and not its value', (key, options, parts) => {
    expect(() => parse(options, parts)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', key: `core.object_store.${key}` }) as Error,
    )
    expect(() => parse(options, parts)).not.toThrow(/secret|rot13/)
  })
})

describe('the options', () => {
  it('have sensible defaults', () => {
    expect(parse()).toMatchObject({
      concurrency: 32,
      maxAttempts: 4,
      connectTimeoutMs: 5000,
      idleTimeoutMs: 20_000,
      partSizeBytes: 8 * 1024 * 1024,
      storageClass: undefined,
      serverSideEncryption: undefined,
    })
  })

  it('take a KMS key to mean encryption with it', () => {
    expect(parse({ kms_key_id: 'alias/k' })).toMatchObject({ serverSideEncryption: 'aws:kms', kmsKeyId: 'alias/k' })
  })

  it('resolve paths', () => {
    const { credentialsFile, caFile } = parse({ ca_file: 'ca.pem' }, { credentialsFile: '~/credentials' })
    expect(credentialsFile).toMatch(/^\/.*\/credentials$/)
    expect(caFile).toBe(`${process.cwd()}/ca.pem`)
  })
})
