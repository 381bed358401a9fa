import { readFileSync, renameSync, utimesSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import type { OpOptions } from '@nexus/objectstore'
import { keep, kept, mutant, type Mutant, pause } from './mutant.ts'

const MIB = 1024 * 1024

/** Faults of `put`. */
export const putMutants: readonly Mutant[] = [
  mutant('put converts to text', ['put stores the bytes as they are', 'put stores a large file whole'], (healthy) => ({
    put: async (key: string, path: string) => keep(healthy, key, Buffer.from(await readFile(path, 'utf8'))),
  })),
  mutant('put translates line ends', ['put stores the bytes as they are'], (healthy) => ({
    put: async (key: string, path: string) => {
      const text = (await readFile(path, 'latin1')).replaceAll('\r\n', '\n')
      keep(healthy, key, Buffer.from(text, 'latin1'))
    },
  })),
  mutant(
    'put skips empty files',
    ['put stores an empty file as an empty object', 'put replaces the object whole'],
    (healthy) => ({
      put: async (key: string, path: string) => {
        const bytes = await readFile(path)
        if (bytes.length > 0) keep(healthy, key, bytes)
      },
    }),
  ),
  mutant('put keeps the tail of a longer object', ['put replaces the object whole'], (healthy) => ({
    put: async (key: string, path: string) => {
      const bytes = await readFile(path)
      keep(healthy, key, Buffer.concat([bytes, (kept(healthy, key) ?? Buffer.of()).subarray(bytes.length)]))
    },
  })),
  mutant('put does nothing', ['put is seen at once by list and hydrate', 'put replaces the object whole'], () => ({
    put: async () => undefined,
  })),
  mutant('put waits for flush', ['put is seen at once by list and hydrate'], (healthy) => {
    const pending = new Map<string, string>()
    return {
      put: async (key: string, path: string) => void pending.set(key, path),
      flush: async () => {
        for (const [key, path] of pending) await healthy.put(key, path)
        pending.clear()
      },
    }
  }),
  mutant(
    'put never overwrites',
    ['put replaces the object whole', 'list is current after every change'],
    (healthy) => ({
      put: async (key: string, path: string) => {
        if (kept(healthy, key) === undefined) await healthy.put(key, path)
      },
    }),
  ),
  mutant('put moves the local file away', ['put leaves the local file untouched'], (healthy) => ({
    put: async (key: string, path: string) => {
      await healthy.put(key, path)
      renameSync(path, `${path}.uploaded`)
    },
  })),
  mutant('put marks the local file', ['put leaves the local file untouched'], (healthy) => ({
    put: async (key: string, path: string) => {
      await healthy.put(key, path)
      utimesSync(path, new Date(), new Date())
    },
  })),
  mutant('put keeps the path and not the bytes', ['put keeps nothing of the local file'], (healthy) => {
    const paths = new Map<string, string>()
    const reread = (): void => {
      for (const [key, path] of paths) keep(healthy, key, readFileSync(path))
    }
    return {
      put: async (key: string, path: string) => {
        await healthy.put(key, path)
        paths.set(key, path)
      },
      hydrate: async (prefix: string, directory: string, options: OpOptions) => {
        reread()
        await healthy.hydrate(prefix, directory, options)
      },
    }
  }),
  mutant(
    'put creates the object before it reads the file',
    [
      'put of a missing file rejects and stores nothing',
      'put of a directory rejects and stores nothing',
      'put of a file that may not be read rejects and stores nothing',
      'readers never see a half-replaced object',
    ],
    (healthy) => ({
      put: async (key: string, path: string) => {
        keep(healthy, key, Buffer.of())
        keep(healthy, key, await readFile(path))
      },
    }),
  ),
  mutant(
    'put takes an unreadable file for an empty one',
    [
      'put of a missing file rejects and stores nothing',
      'put of a directory rejects and stores nothing',
      'put of a file that may not be read rejects and stores nothing',
    ],
    (healthy) => ({
      put: async (key: string, path: string) => keep(healthy, key, await readFile(path).catch(() => Buffer.of())),
    }),
  ),
  mutant('put stores the first 16 MiB', ['put stores a large file whole'], (healthy) => ({
    put: async (key: string, path: string) => keep(healthy, key, (await readFile(path)).subarray(0, 16 * MIB)),
  })),
  mutant('put swaps the parts of a large file', ['put stores a large file whole'], (healthy) => ({
    put: async (key: string, path: string) => {
      const bytes = await readFile(path)
      const cut = 8 * MIB
      keep(healthy, key, bytes.length > cut ? Buffer.concat([bytes.subarray(cut), bytes.subarray(0, cut)]) : bytes)
    },
  })),
  mutant('put chases the end of a growing file', ['put of a growing file stores its first bytes'], (healthy) => ({
    put: async (key: string, path: string, options: OpOptions = {}) => {
      const file = await open(path)
      const chunks: Buffer[] = []
      let bytes = 0
      for (;;) {
        const { bytesRead, buffer } = await file.read(Buffer.alloc(MIB), 0, MIB)
        if (bytesRead === 0) break
        chunks.push(buffer.subarray(0, bytesRead))
        options.onProgress?.({ objects: 0, bytes: (bytes += bytesRead) })
      }
      await file.close()
      keep(healthy, key, Buffer.concat(chunks))
    },
  })),
  mutant('put refuses a file that grew', ['put of a growing file stores its first bytes'], (healthy) => ({
    put: async (key: string, path: string, options: OpOptions) => {
      const before = readFileSync(path).length
      await healthy.put(key, path, options)
      if (readFileSync(path).length !== before) throw new Error('the file changed while it was uploaded')
    },
  })),
  mutant(
    'nothing reports progress',
    ['put reports its progress', 'get reports its progress', 'hydrate reports its progress'],
    (healthy) => ({
      put: (key: string, path: string) => healthy.put(key, path),
      get: (key: string, path: string) => healthy.get(key, path),
      hydrate: (prefix: string, path: string) => healthy.hydrate(prefix, path),
    }),
  ),
  mutant('put tells of its progress at the end', ['put of a large file reports while bytes move'], (healthy) => ({
    put: async (key: string, path: string, { onProgress }: OpOptions = {}) => {
      await healthy.put(key, path)
      onProgress?.({ objects: 1, bytes: kept(healthy, key)?.length ?? 0 })
    },
  })),
  mutant('put reports what moved since the last report', ['put reports its progress'], (healthy) => ({
    put: async (key: string, path: string, { onProgress }: OpOptions = {}) => {
      await healthy.put(key, path)
      onProgress?.({ objects: 0, bytes: 60_000 })
      onProgress?.({ objects: 1, bytes: 40_000 })
    },
  })),
  mutant('puts share an index that is read, changed and written', ['many puts at once all land'], (healthy) => ({
    put: async (key: string, path: string) => {
      const index = new Map(healthy.objects)
      const bytes = await readFile(path)
      await pause()
      index.set(key, { bytes, modTime: new Date() })
      for (const old of healthy.objects.keys()) if (!index.has(old)) healthy.objects.delete(old)
      for (const [name, object] of index) healthy.objects.set(name, object)
    },
  })),
  mutant(
    'put writes the object in place, piece by piece',
    ['puts of one key at once leave one of them whole', 'readers never see a half-replaced object'],
    (healthy) => ({
      put: async (key: string, path: string) => {
        const bytes = await readFile(path)
        for (let at = 0; at < bytes.length; at += 50_000) {
          const there = kept(healthy, key) ?? Buffer.of()
          const piece = bytes.subarray(at, at + 50_000)
          keep(healthy, key, Buffer.concat([there.subarray(0, at), piece, there.subarray(at + piece.length)]))
          await pause()
        }
      },
    }),
  ),
  mutant('put deletes the old object first', ['readers never see a half-replaced object'], (healthy) => ({
    put: async (key: string, path: string, options: OpOptions) => {
      await healthy.delete(key)
      await pause()
      await healthy.put(key, path, options)
    },
  })),
]
