import { type BackendFactory, register } from '@nexus/objectstore/registry'

// Importing this module is the whole wiring, so the SDK, some hundred files, waits for the first bucket that is opened. See
// ./driver.ts for a route without the registry.
const openLazily: BackendFactory = async (config, options) => {
  const { openGcsBackend } = await import('./driver.ts')
  return openGcsBackend(config, options)
}

register('gcs', openLazily)
