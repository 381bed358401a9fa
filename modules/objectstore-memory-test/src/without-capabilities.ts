import type { Backend } from '@nexus/objectstore'

/** An optional method of a backend. */
export type Capability = 'close' | 'putIfAbsent' | 'get' | 'listNames' | 'classify'

/** The backend as if it had been written without some capabilities: the properties are absent, not merely failing. */
export function withoutCapabilities(backend: Backend, absent: readonly Capability[]): Backend {
  const view: Backend = {
    hydrate: (keyPrefix, destDir, options) => backend.hydrate(keyPrefix, destDir, options),
    put: (key, localPath, options) => backend.put(key, localPath, options),
    delete: (key, options) => backend.delete(key, options),
    list: (keyPrefix, options) => backend.list(keyPrefix, options),
    flush: (options) => backend.flush(options),
  }
  for (const capability of ['close', 'putIfAbsent', 'get', 'listNames', 'classify'] as const) {
    const method: unknown = backend[capability]
    if (typeof method !== 'function' || absent.includes(capability)) continue
    Object.assign(view, { [capability]: method.bind(backend) as unknown })
  }
  return view
}
