import { fileURLToPath } from 'node:url'

/** Absolute; this file lies two directories below the package, in the sources and in the build. */
export const REPOSITORY_ROOT: string = fileURLToPath(new URL('../../..', import.meta.url))
