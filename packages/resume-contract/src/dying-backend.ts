import type { Backend } from '@nexus/objectstore'

/** How a run is to die: after its errands, or inside the commit of one. */
export type Death = { when: 'after' } | { when: 'at-manifest'; visit: number }

/**
 * Lets everything of a backend through but the n-th put of a manifest: there `die` is called, and the put never happens.
 * What a process leaves that dies when all objects are stored and the commit isn't.
 */
export function dyingAtManifest(backend: Backend, visit: number, die: () => Promise<never>): Backend {
  let manifests = 0
  return new Proxy(backend, {
    get(target, property): unknown {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function') return value
      if (property !== 'put') return value.bind(target) as unknown
      return async (...args: Parameters<Backend['put']>) => {
        if (args[0].endsWith('.manifest/manifest.json') && ++manifests === visit) await die()
        await target.put(...args)
      }
    },
  })
}
