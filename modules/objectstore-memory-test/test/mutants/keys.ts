import { mkdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { posix } from 'node:path'
import { type ByteRange, type OpOptions, validateKey } from '@nexus/objectstore'
import type { MemoryBackend } from '../../src/driver.ts'
import { keep, mutant, type Mutant } from './mutant.ts'

const SPACES = 'keys with spaces, signs, dots and non-ASCII letters come back exactly'
const TWINS = 'keys that differ only in encoding, case or Unicode form stay different objects'
const CONTROL = 'keys with control characters or a dot at the end come back exactly or are refused'
const PREFIX = 'a prefix with signs and non-ASCII letters matches exactly'

/** A backend that changes keys on their way in. */
function rewriting(rewrite: (key: string) => string) {
  return (healthy: MemoryBackend): Record<string, unknown> => ({
    put: (key: string, path: string, options: OpOptions) => {
      validateKey(key)
      return healthy.put(rewrite(key), path, options)
    },
  })
}

function mended(key: string): string {
  return (
    posix
      .normalize(Buffer.from(key).toString().replaceAll('\\', '/').replaceAll('\0', ''))
      .replace(/^[./]+|\/$/g, '') || 'x'
  )
}

/** Faults with keys. */
export const keyMutants: readonly Mutant[] = [
  mutant('put mends malformed keys', ['put refuses a malformed key'], (healthy) => ({
    put: (key: string, path: string, options: OpOptions) => healthy.put(mended(key), path, options),
  })),
  mutant('put reads the file before it looks at the key', ['put refuses a malformed key'], (healthy) => ({
    put: async (key: string, path: string, options: OpOptions) => {
      await readFile(path)
      await healthy.put(key, path, options)
    },
  })),
  mutant('put throws at a malformed key instead of rejecting', ['put refuses a malformed key'], (healthy) => ({
    put: (key: string, path: string, options: OpOptions) => {
      validateKey(key)
      return healthy.put(key, path, options)
    },
  })),
  mutant('putIfAbsent mends malformed keys', ['putIfAbsent refuses a malformed key'], (healthy) => ({
    putIfAbsent: (key: string, path: string, options: OpOptions) => healthy.putIfAbsent(mended(key), path, options),
  })),
  mutant('delete mends malformed keys', ['delete refuses a malformed key'], (healthy) => ({
    delete: (key: string, options: OpOptions) => healthy.delete(mended(key), options),
  })),
  mutant('list mends malformed prefixes', ['list refuses a malformed prefix'], (healthy) => ({
    list: (prefix: string, options: OpOptions) => healthy.list(prefix === '' ? '' : mended(prefix), options),
  })),
  mutant('list rejects malformed prefixes with any error', ['list refuses a malformed prefix'], (healthy) => ({
    list: (prefix: string, options: OpOptions) =>
      healthy.list(prefix, options).catch(() => {
        throw new Error('400 bad request')
      }),
  })),
  mutant(
    'hydrate makes its directory before it looks at the prefix',
    ['hydrate refuses a malformed prefix'],
    (healthy) => ({
      hydrate: async (prefix: string, directory: string, options: OpOptions) => {
        mkdirSync(directory, { recursive: true })
        await healthy.hydrate(prefix, directory, options)
      },
    }),
  ),
  mutant('get mends malformed keys', ['get refuses a malformed key'], (healthy) => ({
    get: (key: string, path: string, options: OpOptions & ByteRange) => healthy.get(mended(key), path, options),
  })),
  mutant(
    'keys are cut at 1,024 characters',
    ['a key over the limit of the store is refused, never cut'],
    rewriting((key) => key.slice(0, 1024)),
  ),
  mutant('keys are URL-decoded', [SPACES, TWINS], rewriting(decodeOrKeep)),
  mutant(
    'a plus is a space',
    [SPACES, TWINS],
    rewriting((key) => key.replaceAll('+', ' ')),
  ),
  mutant('keys are URL-encoded and never decoded', [SPACES, CONTROL, PREFIX], rewriting(encodeURI)),
  mutant(
    'keys are trimmed',
    [SPACES, TWINS],
    rewriting((key) =>
      key
        .split('/')
        .map((part) => part.trim())
        .join('/'),
    ),
  ),
  mutant(
    'keys are lower case',
    [SPACES, TWINS],
    rewriting((key) => key.toLowerCase()),
  ),
  mutant(
    'keys are composed',
    [SPACES, TWINS],
    rewriting((key) => key.normalize('NFC')),
  ),
  mutant(
    'keys are compatibility-composed',
    [SPACES, TWINS],
    rewriting((key) => key.normalize('NFKC')),
  ),
  mutant(
    'keys are Latin-1',
    [SPACES, PREFIX],
    rewriting((key) => Buffer.from(key, 'latin1').toString('latin1')),
  ),
  mutant(
    'dots are taken for paths',
    [SPACES],
    rewriting((key) => key.replaceAll('..', '')),
  ),
  mutant(
    'control characters are dropped',
    [CONTROL],
    rewriting((key) => key.replaceAll(/\p{Cc}/gu, '')),
  ),
  mutant('control characters break the upload', [CONTROL], (healthy) => ({
    put: async (key: string, path: string, options: OpOptions) => {
      if (/\p{Cc}/u.test(key)) throw new Error('400 bad request')
      await healthy.put(key, path, options)
    },
  })),
  mutant('a control character breaks listings', [CONTROL], (healthy) => ({
    list: async (prefix: string, options: OpOptions) => {
      const objects = await healthy.list(prefix, options)
      return objects.filter(({ key }) => !/\p{Cc}/u.test(key))
    },
  })),
  mutant('a prefix is a pattern', [PREFIX], (healthy) => ({
    list: async (prefix: string, options: OpOptions) => {
      const objects = await healthy.list('', options)
      if (prefix === '') return objects
      const pattern = new RegExp(`^${prefix.replaceAll(/[.\\]/g, '\\$&')}/`)
      return objects.filter(({ key }) => pattern.test(key))
    },
  })),
  mutant('names are cut at 200 bytes', ['a name of 255 bytes and a deep key are held'], (healthy) => ({
    put: async (key: string, path: string) => {
      validateKey(key)
      keep(
        healthy,
        key
          .split('/')
          .map((part) => part.slice(0, 200))
          .join('/'),
        await readFile(path),
      )
    },
  })),
]

function decodeOrKeep(key: string): string {
  try {
    return decodeURIComponent(key)
  } catch {
    return key
  }
}
