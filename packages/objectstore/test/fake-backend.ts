import type { Backend } from '../src/driver.ts'

/** A backend whose methods succeed at once, but for the given ones. */
export function fakeBackend(methods: Partial<Backend> = {}): Backend {
  return {
    hydrate: async () => undefined,
    put: async () => undefined,
    delete: async () => undefined,
    list: async () => [],
    flush: async () => undefined,
    ...methods,
  }
}
