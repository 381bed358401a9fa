import { type BackendFactory, register } from '@nexus/objectstore/registry'

// Importing this module is the whole wiring, so it loads nothing more before a bucket is opened. See ./driver.ts for a
// route without the registry.
const openLazily: BackendFactory = async (config, options) => {
  const { openFsBackend } = await import('./driver.ts')
  return openFsBackend(config, options)
}

register('fs', openLazily)
