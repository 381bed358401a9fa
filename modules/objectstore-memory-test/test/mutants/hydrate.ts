import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isFolderPlaceholder, type OpOptions, trimKeyPrefix, validateKeyPrefix } from '@nexus/objectstore'
import type { MemoryBackend } from '../../src/driver.ts'
import { mutant, type Mutant, pause } from './mutant.ts'

type Write = (path: string, bytes: Buffer) => Promise<void> | void

interface Naive {
  /** The relative path of a raw key, or undefined for what is not hydrated. */
  relative?: (key: string, prefix: string, size: number) => string | undefined
  write?: Write
}

async function writePlainly(path: string, bytes: Buffer): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, bytes)
}

/** Hydration as it is written by somebody in a hurry, with one place after the other to go wrong in. */
function naiveHydrate(backend: MemoryBackend, naive: Naive) {
  return async (prefix: string, directory: string, options: OpOptions = {}): Promise<void> => {
    validateKeyPrefix(prefix)
    options.signal?.throwIfAborted()
    const progress = { objects: 0, bytes: 0 }
    for (const [key, { bytes }] of backend.objects) {
      const relative = (naive.relative ?? honest)(key, prefix, bytes.length)
      if (relative === undefined) continue
      await (naive.write ?? writePlainly)(join(directory, relative), bytes)
      progress.objects++
      progress.bytes += bytes.length
      options.onProgress?.({ ...progress })
      options.signal?.throwIfAborted()
    }
  }
}

function honest(key: string, prefix: string, size: number): string | undefined {
  return isFolderPlaceholder(key, size) ? undefined : trimKeyPrefix(key, prefix)
}

/** Faults of `hydrate`. */
export const hydrateMutants: readonly Mutant[] = [
  mutant('hydrate keeps the prefix', ['hydrate strips the prefix and makes directories'], (healthy) => ({
    hydrate: naiveHydrate(healthy, { relative: (...args) => (honest(...args) === undefined ? undefined : args[0]) }),
  })),
  mutant('hydrate flattens directories', ['hydrate strips the prefix and makes directories'], (healthy) => ({
    hydrate: naiveHydrate(healthy, { relative: (...args) => honest(...args)?.replaceAll('/', '_') }),
  })),
  mutant('hydrate matches the raw prefix', ['hydrate matches whole segments'], (healthy) => ({
    hydrate: naiveHydrate(healthy, {
      relative: (key, prefix) =>
        key.startsWith(prefix) ? key.slice(prefix.length).replace(/^\//, '') || undefined : undefined,
    }),
  })),
  mutant(
    'hydrate writes the object at the prefix',
    ['hydrate leaves out the object at the prefix itself'],
    (healthy) => ({
      hydrate: naiveHydrate(healthy, {
        relative: (key, prefix, size) => (key === prefix ? basename(key) : honest(key, prefix, size)),
      }),
    }),
  ),
  mutant('hydrate clears the destination first', ['hydrate adds and overwrites but never deletes'], (healthy) => ({
    hydrate: async (prefix: string, directory: string, options: OpOptions) => {
      if (options?.signal?.aborted !== true) rmSync(directory, { recursive: true, force: true })
      await healthy.hydrate(prefix, directory, options)
    },
  })),
  mutant('hydrate keeps files that are there', ['hydrate adds and overwrites but never deletes'], (healthy) => ({
    hydrate: naiveHydrate(healthy, {
      write: async (path, bytes) => {
        await mkdir(dirname(path), { recursive: true })
        await writeFile(path, bytes, { flag: 'wx' }).catch(() => undefined)
      },
    }),
  })),
  mutant(
    'hydrate writes over the beginning of a longer file',
    ['hydrate adds and overwrites but never deletes'],
    (healthy) => ({
      hydrate: naiveHydrate(healthy, {
        write: async (path, bytes) => {
          await mkdir(dirname(path), { recursive: true })
          await writeFile(path, bytes, { flag: 'r+' }).catch(() => writeFile(path, bytes))
        },
      }),
    }),
  ),
  mutant('hydrate leaves its temporary files', ['hydrate leaves no temporary files'], (healthy) => ({
    hydrate: naiveHydrate(healthy, {
      write: async (path, bytes) => {
        await writePlainly(path, bytes)
        await writeFile(`${path}.part`, '')
      },
    }),
  })),
  mutant(
    'hydrate skips what can not be written',
    ['hydrate refuses two keys that can not both be files', 'hydrate fails where a directory stands in the way'],
    (healthy) => ({
      hydrate: naiveHydrate(healthy, { write: (path, bytes) => writePlainly(path, bytes).catch(() => undefined) }),
    }),
  ),
  mutant('hydrate makes room', ['hydrate fails where a directory stands in the way'], (healthy) => ({
    hydrate: naiveHydrate(healthy, {
      write: async (path, bytes) => {
        await rm(path, { recursive: true, force: true })
        await writePlainly(path, bytes)
      },
    }),
  })),
  mutant('hydrate fails without naming the key', ['hydrate fails where a directory stands in the way'], (healthy) => ({
    hydrate: async (prefix: string, directory: string, options: OpOptions) =>
      healthy.hydrate(prefix, directory, options).catch((error: unknown) => {
        throw options?.signal?.aborted === true ? error : new Error('some download failed')
      }),
  })),
  mutant(
    'hydrate follows links',
    ['hydrate never follows a link out of the destination', 'hydrate never writes through a link at the file itself'],
    (healthy) => ({ hydrate: naiveHydrate(healthy, {}) }),
  ),
  mutant('hydrate writes placeholders as empty files', ['hydrate ignores folder placeholders'], (healthy) => ({
    hydrate: naiveHydrate(healthy, {
      relative: (key, prefix) => trimKeyPrefix(key, prefix)?.replace(/\/$/, '') || undefined,
    }),
  })),
  mutant('hydrate fails at placeholders', ['hydrate ignores folder placeholders'], (healthy) => ({
    hydrate: naiveHydrate(healthy, {
      relative: (key, prefix) => {
        if (key.endsWith('/')) throw new Error(`bad key ${key}`)
        return trimKeyPrefix(key, prefix)
      },
    }),
  })),
  mutant(
    'hydrate joins whatever the key says',
    ['hydrate refuses malformed keys in the bucket and writes nothing outside'],
    (healthy) => ({ hydrate: naiveHydrate(healthy, {}) }),
  ),
  mutant(
    'hydrate skips malformed keys',
    ['hydrate refuses malformed keys in the bucket and writes nothing outside'],
    (healthy) => ({
      hydrate: naiveHydrate(healthy, {
        relative: (key, prefix, size) =>
          /\\|\/\/|\/\.{0,2}(?:\/|$)/.test(key) ? undefined : honest(key, prefix, size),
      }),
    }),
  ),
  mutant('hydrate gives the first page', ['list and hydrate are complete beyond one page'], (healthy) => ({
    hydrate: async (prefix: string, directory: string, options: OpOptions) => {
      await healthy.hydrate(prefix, directory, options)
      for (const entry of readdirSync(directory).slice(3)) rmSync(join(directory, entry), { recursive: true })
    },
  })),
  mutant(
    'hydrate truncates downloads',
    ['put stores a large file whole', 'hydrate strips the prefix and makes directories'],
    (healthy) => ({
      hydrate: naiveHydrate(healthy, { write: (path, bytes) => writePlainly(path, bytes.subarray(0, 65_536)) }),
    }),
  ),
  mutant(
    'hydrate adds a suffix for its temporary names',
    ['a name of 255 bytes and a deep key are held'],
    (healthy) => ({
      hydrate: naiveHydrate(healthy, {
        write: async (path, bytes) => {
          await writePlainly(`${path}.part`, bytes)
          await rename(`${path}.part`, path)
        },
      }),
    }),
  ),
  mutant('hydrate reports each object alone', ['hydrate reports its progress'], (healthy) => ({
    hydrate: async (prefix: string, directory: string, { signal, onProgress }: OpOptions = {}) => {
      await healthy.hydrate(prefix, directory, signal === undefined ? {} : { signal })
      for (const { size } of await healthy.list(prefix)) onProgress?.({ objects: 1, bytes: size })
    },
  })),
  mutant('hydrate reports only its end', ['hydrate reports its progress'], (healthy) => ({
    hydrate: async (prefix: string, directory: string, { signal, onProgress }: OpOptions = {}) => {
      let last = { objects: 0, bytes: 0 }
      const remember = (progress: typeof last): void => void (last = progress)
      await healthy.hydrate(prefix, directory, { ...(signal && { signal }), onProgress: remember })
      onProgress?.(last)
    },
  })),
  mutant('hydrations share one temporary name', ['hydrations at once do not disturb each other'], (healthy) => ({
    hydrate: naiveHydrate(healthy, {
      write: async (path, bytes) => {
        const temp = join(dirname(path), '.download')
        await mkdir(dirname(path), { recursive: true })
        await writeFile(temp, bytes)
        await pause()
        await rename(temp, path)
      },
    }),
  })),
  mutant('hydrate remembers one destination', ['hydrations at once do not disturb each other'], (healthy) => {
    let destination = ''
    return {
      hydrate: async (prefix: string, directory: string) => {
        destination = directory
        for (const { key } of await healthy.list(prefix)) {
          await pause()
          const path = join(destination, trimKeyPrefix(key, prefix) ?? '')
          mkdirSync(dirname(path), { recursive: true })
          writeFileSync(path, healthy.objects.get(key)?.bytes ?? '')
        }
      },
    }
  }),
]
