import { type BackendFactory, register } from '@nexus/objectstore/registry'

// Importing this module is the whole wiring, so it loads nothing more, and no SDK, before a bucket is opened. See ./driver.ts
// for a route without the registry.
const openLazily: BackendFactory = async (config, options) => {
  const { openS3Backend } = await import('./driver.ts')
  return openS3Backend(config, options)
}

register('s3', openLazily)
