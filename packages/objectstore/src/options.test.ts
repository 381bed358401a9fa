import { describe, expect, it } from 'vitest'
import { configError, objectStoreConfig } from './config.ts'
import {
  booleanOption,
  integerOption,
  oneOfOption,
  parseEndpoint,
  parseOptions,
  stringOption,
  urlOption,
} from './options.ts'

const readers = {
  storage_class: oneOfOption('STANDARD', 'COLD'),
  kms_key: stringOption(),
  path_style: booleanOption(),
  max_attempts: integerOption({ min: 1, max: 10 }),
  part_bytes: integerOption(),
  proxy: urlOption(),
}

describe('parseOptions', () => {
  it('gives each configured value typed, and leaves the others out', () => {
    const parsed = parseOptions(
      's3',
      { storage_class: 'COLD', path_style: false, max_attempts: 3, kms_key: null },
      readers,
    )
    expect(parsed).toEqual({ storage_class: 'COLD', path_style: false, max_attempts: 3 })
    const attempts: number | undefined = parsed.max_attempts
    expect(attempts).toBe(3)
    expect(parseOptions('s3', { proxy: 'http://p:3128' }, readers).proxy?.port).toBe('3128')
  })

  it('names an unknown option, the nearest one and all that are allowed', () => {
    expect(() => parseOptions('s3', { storage_clas: 'COLD' }, readers)).toThrow(
      expect.objectContaining({
        code: 'INVALID_ARGUMENT',
        key: 'core.object_store.options.storage_clas',
        message:
          'core.object_store.options.storage_clas is not an option of backend "s3"; did you mean storage_class? ' +
          '(allowed: kms_key, max_attempts, part_bytes, path_style, proxy, storage_class)',
      }),
    )
    expect(() => parseOptions('s3', { entirely_different: 1 }, readers)).toThrow(/backend "s3" \(allowed/)
    expect(() => parseOptions('fs', { x: 1 }, {})).toThrow('is not an option of backend "fs", which has none')
  })

  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty'])('knows no option %s', (name) => {
    const options = JSON.parse(`{"${name}": {"polluted": true}}`) as Record<string, unknown>
    expect(() => parseOptions('s3', options, readers)).toThrow(/is not an option/)
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })

  it.each<[string, unknown, string]>([
    ['storage_class', 'ICE', 'must be one of STANDARD, COLD'],
    ['kms_key', '', 'must be a string that is not empty'],
    ['kms_key', 5, 'must be a string that is not empty'],
    ['path_style', 'true', 'must be true or false'],
    ['max_attempts', 0, 'must be a whole number from 1 to 10'],
    ['max_attempts', 2.5, 'must be a whole number from 1 to 10'],
    ['max_attempts', '3', 'must be a whole number from 1 to 10'],
    ['part_bytes', -1, 'must be a whole number from 0'],
    ['proxy', 'ftp://secret-host', 'must be an absolute http or https URL'],
    ['proxy', 'p:3128', 'must be an absolute http or https URL'],
  ])('refuses %s %j without showing the value', (name, value, problem) => {
    const parse = (): unknown => parseOptions('s3', { [name]: value }, readers)
    expect(parse).toThrow(`core.object_store.options.${name} ${problem}`)
    expect(parse).not.toThrow(/secret-host/)
  })
})

describe('parseEndpoint', () => {
  it('gives the URL, or nothing when there is none', () => {
    expect(parseEndpoint('')).toBeUndefined()
    expect(parseEndpoint('http://127.0.0.1:9000')?.host).toBe('127.0.0.1:9000')
    expect(() => parseEndpoint('minio.local')).toThrow(
      'core.object_store.endpoint must be an absolute http or https URL',
    )
  })
})

describe('objectStoreConfig', () => {
  it('fills in what is not configured, and shares nothing with its input', () => {
    const options = { a: 1 }
    const config = objectStoreConfig({ backend: 'fs', bucket: '/b', options })
    expect(config).toEqual({
      backend: 'fs',
      bucket: '/b',
      prefix: '',
      region: '',
      endpoint: '',
      credentialsFile: '',
      options: { a: 1 },
    })
    expect(config.options).not.toBe(options)
  })

  it('refuses a prefix that is none, and no name', () => {
    expect(() => objectStoreConfig({ backend: 'fs', prefix: '/a' })).toThrow(/object prefix "\/a" begins/)
    expect(() => objectStoreConfig({ backend: '' })).toThrow('core.object_store.backend is empty')
  })
})

describe('configError', () => {
  it('names the key as it is written in YAML', () => {
    const cause = new Error('ENOENT')
    expect(configError('credentials_file', 'can not be read', cause)).toMatchObject({
      code: 'INVALID_ARGUMENT',
      key: 'core.object_store.credentials_file',
      message: 'core.object_store.credentials_file can not be read',
      cause,
    })
  })
})
