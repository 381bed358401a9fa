import { homedir } from 'node:os'
import { objectStoreConfig, type ObjectStoreConfig } from '@nexus/objectstore'
import { describe, expect, it } from 'vitest'
import { parseFsOptions } from './options.ts'

function parse(parts: Partial<ObjectStoreConfig>): ReturnType<typeof parseFsOptions> {
  return parseFsOptions({ ...objectStoreConfig({ backend: 'fs', bucket: '/mnt/bucket' }), ...parts })
}

describe('parseFsOptions', () => {
  it('fills in what is not configured', () => {
    expect(parse({})).toEqual({
      bucket: '/mnt/bucket',
      prefix: '',
      fsync: true,
      requireMount: false,
      fileMode: 0o600,
      directoryMode: 0o700,
    })
  })

  it('reads every option', () => {
    const options = { fsync: false, require_mount: true, file_mode: '0640', directory_mode: '750' }
    expect(parse({ options, prefix: 'a/b' })).toEqual({
      bucket: '/mnt/bucket',
      prefix: 'a/b',
      fsync: false,
      requireMount: true,
      fileMode: 0o640,
      directoryMode: 0o750,
    })
  })

  it('makes the bucket path absolute', () => {
    expect(parse({ bucket: '~/bucket' }).bucket).toBe(`${homedir()}/bucket`)
    expect(parse({ bucket: 'x/../bucket' }).bucket).toBe(`${process.cwd()}/bucket`)
    expect(parse({ bucket: '/a/b/' }).bucket).toBe('/a/b')
  })

  it.each<[string, Partial<ObjectStoreConfig>]>([
    ['bucket', { bucket: '' }],
    ['bucket', { bucket: '/a\0b' }],
    ['prefix', { prefix: '/a' }],
    ['prefix', { prefix: 'a/../b' }],
    ['region', { region: 'eu-west-1' }],
    ['endpoint', { endpoint: 'http://localhost:9000' }],
    ['credentials_file', { credentialsFile: '/x' }],
    ['options.fsnyc', { options: { fsnyc: true } }],
    ['options.fsync', { options: { fsync: 'yes' } }],
    ['options.require_mount', { options: { require_mount: 1 } }],
    ['options.file_mode', { options: { file_mode: 640 } }],
    ['options.file_mode', { options: { file_mode: '0400' } }],
    ['options.file_mode', { options: { file_mode: '4755' } }],
    ['options.directory_mode', { options: { directory_mode: 'rwx' } }],
    ['options.directory_mode', { options: { directory_mode: '600' } }],
    ['options.__proto__', { options: JSON.parse('{"__proto__": 1}') as Record<string, unknown> }],
  ])('refuses a wrong %s, naming it', (key, parts) => {
    expect(() => parse(parts)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', key: `core.object_store.${key}` }),
    )
  })

  it('names the option that was meant', () => {
    expect(() => parse({ options: { fsnyc: true } })).toThrow(/did you mean fsync/)
  })
})
