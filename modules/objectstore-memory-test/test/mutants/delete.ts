import { mutant, type Mutant } from './mutant.ts'

/** Faults of `delete` and `flush`. */
export const deleteMutants: readonly Mutant[] = [
  mutant('delete does nothing', ['delete removes the object', 'list is current after every change'], () => ({
    delete: async () => undefined,
  })),
  mutant('a deleted key stays taken', ['delete removes the object'], (healthy) => {
    const gone = new Set<string>()
    return {
      delete: async (key: string) => {
        gone.add(key)
        await healthy.delete(key)
      },
      put: async (key: string, path: string) => (gone.has(key) ? undefined : healthy.put(key, path)),
    }
  }),
  mutant('delete of a missing key is an error', ['delete of a missing key succeeds'], (healthy) => ({
    delete: async (key: string) => {
      if (!healthy.objects.delete(key)) throw new Error('404 no such key')
    },
  })),
  mutant(
    'delete removes everything below',
    ['delete removes exactly its key', 'delete of an object leaves what is stored below its key'],
    (healthy) => ({
      delete: async (key: string) => {
        for (const other of healthy.objects.keys()) {
          if (other === key || other.startsWith(`${key}/`)) healthy.objects.delete(other)
        }
      },
    }),
  ),
  mutant('delete matches the raw prefix', ['delete removes exactly its key'], (healthy) => ({
    delete: async (key: string) => {
      for (const other of healthy.objects.keys()) if (other.startsWith(key)) healthy.objects.delete(other)
    },
  })),
  mutant('delete waits for flush', ['delete removes the object', 'list is current after every change'], (healthy) => {
    const pending = new Set<string>()
    return {
      delete: async (key: string) => void pending.add(key),
      flush: async () => {
        for (const key of pending) await healthy.delete(key)
      },
    }
  }),
  mutant('flush works once', ['flush can be called at any time and again'], () => {
    let flushed = false
    return {
      flush: async () => {
        if (flushed) throw new Error('flushed already')
        flushed = true
      },
    }
  }),
  mutant('flush forgets what it should store', ['flush can be called at any time and again'], (healthy) => ({
    flush: async () => healthy.objects.clear(),
  })),
]
