import manifest from '../package.json' with { type: 'json' }

/** Version of `@nexus/engine`. */
export const ENGINE_VERSION: string = manifest.version
