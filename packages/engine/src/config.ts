// Reading a configuration as a boot does, for tools that run no session.
export { configFromObject, loadConfigFile, type LoadedConfig } from './config/load.ts'
export { configJsonSchema, type JsonSchema } from './config/json-schema.ts'
export { nearName } from './config/near-name.ts'
export type { EngineConfig, ObjectStoreSettings } from './config/engine-config.ts'
