import { readFile } from 'node:fs/promises'
import type { OpOptions } from '@nexus/objectstore'
import { keep, kept, mutant, type Mutant, pause } from './mutant.ts'

const DECIDES = 'putIfAbsent creates a free key and leaves a taken one'
const RACE = 'putIfAbsent has exactly one winner among many creators'

/** Faults of `putIfAbsent`. */
export const conditionalMutants: readonly Mutant[] = [
  mutant('putIfAbsent is there only to fail', ['putIfAbsent is offered and works, or is absent and refused'], () => ({
    putIfAbsent: () => Promise.reject(new Error('not supported')),
  })),
  mutant('putIfAbsent is a flag', ['putIfAbsent is offered and works, or is absent and refused'], () => ({
    putIfAbsent: true,
  })),
  mutant('the condition is ignored', [DECIDES, RACE], (healthy) => ({
    putIfAbsent: async (key: string, path: string, options: OpOptions) => {
      await healthy.put(key, path, options)
      return true
    },
  })),
  mutant('a taken key is overwritten and reported as taken', [DECIDES], (healthy) => ({
    putIfAbsent: async (key: string, path: string, options: OpOptions) => {
      const free = kept(healthy, key) === undefined
      await healthy.put(key, path, options)
      return free
    },
  })),
  mutant('a taken key is an error', [DECIDES], (healthy) => ({
    putIfAbsent: async (key: string, path: string, options: OpOptions) => {
      if (await healthy.putIfAbsent(key, path, options)) return true
      throw new Error('412 precondition failed')
    },
  })),
  mutant('what put stored does not count', [DECIDES], (healthy) => {
    const created = new Set<string>()
    return {
      putIfAbsent: async (key: string, path: string, options: OpOptions) => {
        if (created.has(key)) return false
        created.add(key)
        await healthy.put(key, path, options)
        return true
      },
    }
  }),
  mutant('a look beforehand decides', [RACE], (healthy) => ({
    putIfAbsent: async (key: string, path: string, options: OpOptions) => {
      if (kept(healthy, key) !== undefined) return false
      await pause()
      await healthy.put(key, path, options)
      return true
    },
  })),
  mutant('nobody wins a race', [RACE], (healthy) => ({
    putIfAbsent: async (key: string, path: string, options: OpOptions) => {
      const created = await healthy.putIfAbsent(key, path, options)
      return created && !key.startsWith('race')
    },
  })),
  mutant('a loser overwrites the winner', [RACE], (healthy) => ({
    putIfAbsent: async (key: string, path: string, options: OpOptions) => {
      const bytes = await readFile(path)
      const created = await healthy.putIfAbsent(key, path, options)
      if (!created && key.startsWith('race')) keep(healthy, key, bytes)
      return created
    },
  })),
  mutant('a listing by prefix decides', ['putIfAbsent looks at exactly its key'], (healthy) => ({
    putIfAbsent: async (key: string, path: string, options: OpOptions) => {
      if ([...healthy.objects.keys()].some((other) => other.startsWith(key))) return false
      return healthy.putIfAbsent(key, path, options)
    },
  })),
  mutant('an empty object leaves the key free', ['putIfAbsent of an empty file takes the key'], (healthy) => ({
    putIfAbsent: async (key: string, path: string, options: OpOptions) => {
      if (kept(healthy, key)?.length === 0) healthy.objects.delete(key)
      return healthy.putIfAbsent(key, path, options)
    },
  })),
  mutant(
    'the key is taken before the file is read',
    ['putIfAbsent of a missing file rejects and takes nothing'],
    (healthy) => ({
      putIfAbsent: async (key: string, path: string) => {
        if (kept(healthy, key) !== undefined) return false
        keep(healthy, key, Buffer.of())
        keep(healthy, key, await readFile(path))
        return true
      },
    }),
  ),
]
