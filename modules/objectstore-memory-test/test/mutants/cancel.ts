import { readFile } from 'node:fs/promises'
import type { ByteRange, OpOptions } from '@nexus/objectstore'
import { keep, mutant, type Mutant, pause } from './mutant.ts'

function ignored(method: string): string {
  return `${method} under an aborted signal does nothing and rejects`
}

const HYDRATE_MIDWAY = 'hydrate that is aborted midway stops and rejects'
const PUT_MIDWAY = 'put that is aborted midway leaves the old object or the new one'

function deaf(options: OpOptions = {}): OpOptions {
  const { onProgress } = options
  return onProgress === undefined ? {} : { onProgress }
}

/** Faults with signals, and of what a backend says about itself. */
export const cancelMutants: readonly Mutant[] = [
  mutant('put ignores its signal', [ignored('put'), PUT_MIDWAY], (healthy) => ({
    put: (key: string, path: string, options: OpOptions) => healthy.put(key, path, deaf(options)),
  })),
  mutant('delete ignores its signal', [ignored('delete')], (healthy) => ({
    delete: (key: string) => healthy.delete(key),
  })),
  mutant('list ignores its signal', [ignored('list')], (healthy) => ({
    list: (prefix: string) => healthy.list(prefix),
  })),
  mutant('flush ignores its signal', [ignored('flush')], (healthy) => ({ flush: () => healthy.flush() })),
  mutant('get ignores its signal', [ignored('get')], (healthy) => ({
    get: (key: string, path: string, options: OpOptions & ByteRange) =>
      healthy.get(key, path, { ...options, signal: new AbortController().signal }),
  })),
  mutant('putIfAbsent ignores its signal', [ignored('putIfAbsent')], (healthy) => ({
    putIfAbsent: (key: string, path: string) => healthy.putIfAbsent(key, path),
  })),
  mutant('hydrate ignores its signal', [ignored('hydrate'), HYDRATE_MIDWAY], (healthy) => ({
    hydrate: (prefix: string, path: string, options: OpOptions) => healthy.hydrate(prefix, path, deaf(options)),
  })),
  mutant('delete works in spite of the abort it reports', [ignored('delete')], (healthy) => ({
    delete: async (key: string, options: OpOptions) => {
      await healthy.delete(key)
      options?.signal?.throwIfAborted()
    },
  })),
  mutant('hydrate rejects and goes on in the background', [HYDRATE_MIDWAY], (healthy) => ({
    hydrate: (prefix: string, path: string, options: OpOptions = {}) =>
      new Promise<void>((resolve, reject) => {
        options.signal?.throwIfAborted()
        options.signal?.addEventListener('abort', () => reject(options.signal?.reason))
        const slowly = async (): Promise<void> => {
          await pause()
          await healthy.hydrate(prefix, path, deaf(options))
        }
        slowly().then(resolve, reject)
      }),
  })),
  mutant('an aborted put leaves what it has sent', [PUT_MIDWAY], (healthy) => ({
    put: async (key: string, path: string, options: OpOptions = {}) => {
      try {
        await healthy.put(key, path, options)
      } catch (error) {
        if (options.signal?.aborted === true) keep(healthy, key, (await readFile(path)).subarray(0, 1000))
        throw error
      }
    },
  })),
  mutant('an aborted put deletes the old object', [PUT_MIDWAY], (healthy) => ({
    put: async (key: string, path: string, options: OpOptions = {}) => {
      try {
        await healthy.put(key, path, options)
      } catch (error) {
        if (options.signal?.aborted === true) healthy.objects.delete(key)
        throw error
      }
    },
  })),
  mutant('classify invents a class', ['classify answers a known class or nothing, whatever it is given'], () => ({
    classify: () => 'transient',
  })),
  mutant('classify expects an error', ['classify answers a known class or nothing, whatever it is given'], () => ({
    classify: (error: { code: string }) => (error.code.startsWith('E') ? 'temporary' : undefined),
  })),
  mutant('close rejects', ['close resolves'], () => ({ close: () => Promise.reject(new Error('already closed')) })),
  {
    ...mutant('close never answers', ['close resolves'], () => ({ close: () => new Promise(() => undefined) })),
    timeoutMs: 250,
  },
]
