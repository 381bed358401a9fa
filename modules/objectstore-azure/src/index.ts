import { type BackendFactory, register } from '@nexus/objectstore/registry'

// Importing this module is the whole wiring, so the SDK, some hundred files, waits for the first container that is opened. See
// ./driver.ts for a route without the registry.
const openLazily: BackendFactory = async (config, options) => {
  const { openAzureBackend } = await import('./driver.ts')
  return openAzureBackend(config, options)
}

register('azure', openLazily)
