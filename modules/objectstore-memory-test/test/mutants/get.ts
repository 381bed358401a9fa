import { readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { type ByteRange, ObjectNotFoundError, type OpOptions } from '@nexus/objectstore'
import type { MemoryBackend } from '../../src/driver.ts'
import { kept, mutant, type Mutant } from './mutant.ts'

const WHOLE = 'get writes one object to a file'
const RANGE = 'get writes a range of an object'
const MISS = 'get of a missing object rejects with NOT_FOUND and leaves the file alone'

const MIB = 1024 * 1024

type Get = (key: string, path: string, options?: OpOptions & ByteRange) => Promise<void>

function slicing(slice: (bytes: Buffer, range: ByteRange) => Buffer) {
  return (healthy: MemoryBackend): { get: Get } => ({
    get: async (key, path, options = {}) => {
      await healthy.get(key, path, options.signal === undefined ? {} : { signal: options.signal })
      writeFileSync(path, slice(readFileSync(path), options))
    },
  })
}

/** Faults of `get`. */
export const getMutants: readonly Mutant[] = [
  mutant('get is there only to fail', ['get is offered and works, or is absent and refused', WHOLE, RANGE], () => ({
    get: () => Promise.reject(new Error('not supported')),
  })),
  mutant('get is null', ['get is offered and works, or is absent and refused'], () => ({ get: null })),
  mutant('get is undefined and yet there', ['get is offered and works, or is absent and refused'], () => ({
    get: undefined,
  })),
  mutant(
    'get truncates',
    [WHOLE],
    slicing((bytes) => bytes.subarray(0, 65_536)),
  ),
  mutant('get takes the first key that begins alike', [MISS], (healthy) => ({
    get: async (key: string, path: string, options: OpOptions & ByteRange) => {
      const near = [...healthy.objects.keys()].toSorted().find((other) => other.startsWith(key))
      await healthy.get(near ?? key, path, options)
    },
  })),
  mutant('get appends to the file', [WHOLE], (healthy) => ({
    get: async (key: string, path: string, options: OpOptions & ByteRange) => {
      await healthy.get(key, `${path}.new`, options)
      writeFileSync(path, readFileSync(`${path}.new`), { flag: 'a' })
    },
  })),
  mutant('get remembers what it read', [WHOLE], (healthy) => {
    const memory = new Map<string, Buffer>()
    return {
      get: async (key: string, path: string) => {
        if (!memory.has(key)) {
          await healthy.get(key, path)
          memory.set(key, readFileSync(path))
        }
        writeFileSync(path, memory.get(key) ?? '')
      },
    }
  }),
  mutant(
    'get ignores ranges',
    [RANGE],
    slicing((bytes) => bytes),
  ),
  mutant(
    'get ignores the offset',
    [RANGE],
    slicing((bytes, { length }) => bytes.subarray(0, length)),
  ),
  mutant(
    'get takes one byte too many',
    [RANGE],
    slicing((bytes, { offset = 0, length }) =>
      bytes.subarray(offset, length === undefined ? undefined : offset + length + 1),
    ),
  ),
  mutant(
    'get takes a length of 0 for none',
    [RANGE],
    slicing((bytes, { offset = 0, length }) => bytes.subarray(offset, length ? offset + length : undefined)),
  ),
  mutant('get rejects a range beyond the end', [RANGE], (healthy) => ({
    get: async (key: string, path: string, options: OpOptions & ByteRange = {}) => {
      if ((options.offset ?? 0) >= (kept(healthy, key)?.length ?? 1)) throw new Error('416 range not satisfiable')
      await healthy.get(key, path, options)
    },
  })),
  mutant('a miss is an empty file', [MISS], (healthy) => ({
    get: async (key: string, path: string, options: OpOptions & ByteRange) => {
      if (kept(healthy, key) === undefined) writeFileSync(path, '')
      else await healthy.get(key, path, options)
    },
  })),
  mutant('a miss is any error', [MISS], (healthy) => ({
    get: async (key: string, path: string, options: OpOptions & ByteRange) => {
      if (kept(healthy, key) === undefined) throw new Error('404')
      await healthy.get(key, path, options)
    },
  })),
  mutant('a miss has truncated the file', [MISS], (healthy) => ({
    get: async (key: string, path: string, options: OpOptions & ByteRange) => {
      if (kept(healthy, key) === undefined) writeFileSync(path, '')
      await healthy.get(key, path, options)
    },
  })),
  mutant('get follows a link', ['get does not write through a link'], (healthy) => ({
    get: async (key: string, path: string) => writeFileSync(path, kept(healthy, key) ?? ''),
  })),
  mutant('a local failure is a miss', ['get that can not write its file rejects'], (healthy) => ({
    get: async (key: string, path: string, options: OpOptions & ByteRange) =>
      healthy.get(key, path, options).catch(() => {
        throw new ObjectNotFoundError(key)
      }),
  })),
  mutant('a local failure is a success', ['get that can not write its file rejects'], (healthy) => ({
    get: async (key: string, path: string, options: OpOptions & ByteRange) =>
      healthy.get(key, path, options).catch((error: unknown) => {
        if (error instanceof ObjectNotFoundError || options?.signal?.aborted === true) throw error
      }),
  })),
  mutant('get links instead of copying', ['get writes one object to a file'], (healthy) => ({
    get: async (key: string, path: string) => {
      if (kept(healthy, key) === undefined) throw new ObjectNotFoundError(key)
      symlinkSync('/nonexistent/cache/entry', path)
    },
  })),
  mutant(
    'get removes the old file and streams the new one',
    ['get writes no part of an object in place', 'get that is aborted midway leaves the file that was there'],
    (healthy) => ({
      get: async (key: string, path: string, { onProgress, signal }: OpOptions = {}) => {
        const bytes = kept(healthy, key) ?? Buffer.of()
        rmSync(path, { force: true })
        for (let at = 0; at < bytes.length; at += MIB) {
          onProgress?.({ objects: 0, bytes: at })
          signal?.throwIfAborted()
          writeFileSync(`${path}.part`, bytes.subarray(at, at + MIB), { flag: 'a' })
        }
        renameSync(`${path}.part`, path)
      },
    }),
  ),
  mutant('get writes directly', ['get writes no part of an object in place'], (healthy) => ({
    get: async (key: string, path: string, { onProgress }: OpOptions = {}) => {
      const bytes = kept(healthy, key) ?? Buffer.of()
      for (let at = 0; at < bytes.length; at += MIB) {
        writeFileSync(path, bytes.subarray(at, at + MIB), { flag: at === 0 ? 'w' : 'a' })
        onProgress?.({ objects: 0, bytes: at + 1 })
      }
    },
  })),
  mutant('get tells of its progress at the end', ['get of a large object reports while bytes move'], (healthy) => ({
    get: async (key: string, path: string, { onProgress, signal, ...range }: OpOptions & ByteRange = {}) => {
      await healthy.get(key, path, { ...range, ...(signal === undefined ? {} : { signal }) })
      onProgress?.({ objects: 1, bytes: kept(healthy, key)?.length ?? 0 })
    },
  })),
]
