const SEAM = '@nexus/objectstore'
const BACKEND = [SEAM, '@nexus/errors', '@nexus/host']

/** What each package's published code may import besides Node: workspace packages and libraries. */
export const PACKAGES = {
  '@nexus/errors': [],
  '@nexus/host': ['@nexus/errors'],
  '@nexus/objectstore': ['@nexus/errors', '@nexus/host'],
  '@nexus/objectstore-contract': [SEAM],
  '@nexus/journal': ['@nexus/errors', '@nexus/host', 'zstd-napi'],
  '@nexus/blobs': ['@nexus/errors', '@nexus/host'],
  // Its handles are of better-sqlite3's type: a program that compiles against them needs the types, too.
  '@nexus/storage': ['@nexus/errors', '@nexus/host', 'better-sqlite3', '@types/better-sqlite3'],
  '@nexus/durability': [
    '@nexus/errors',
    '@nexus/host',
    SEAM,
    '@nexus/journal',
    '@nexus/blobs',
    '@nexus/storage',
    'zstd-napi',
  ],
  '@nexus/engine': [
    '@nexus/errors',
    '@nexus/host',
    SEAM,
    '@nexus/journal',
    '@nexus/blobs',
    '@nexus/storage',
    '@nexus/durability',
    'yaml',
    'valibot',
    'pino',
  ],
  // Looks at sessions and moves them; runs none, so it knows no engine.
  '@nexus/inspect': [
    '@nexus/errors',
    '@nexus/host',
    SEAM,
    '@nexus/journal',
    '@nexus/durability',
    'better-sqlite3',
    '@types/better-sqlite3',
    'tar-stream',
    'zstd-napi',
  ],
  '@nexus/resume-contract': ['@nexus/engine', SEAM],
  '@nexus/plugins': ['@nexus/engine', 'valibot', '@valibot/to-json-schema', 'yaml', 'openai'],
  // Reads sources, and runs none: it knows no engine.
  '@nexus/raw-writers': ['typescript'],
  '@nexus/cli': [
    '@nexus/errors',
    '@nexus/host',
    SEAM,
    '@nexus/objectstore-contract',
    '@nexus/journal',
    '@nexus/durability',
    '@nexus/engine',
    '@nexus/inspect',
    '@nexus/plugins',
    'commander',
    '@commander-js/extra-typings',
    'yaml',
  ],
  '@nexus/objectstore-memory-test': BACKEND,
  '@nexus/objectstore-fs': BACKEND,
  '@nexus/objectstore-s3': [...BACKEND, '@aws-sdk/*', '@smithy/*', 'http-proxy-agent', 'https-proxy-agent'],
  '@nexus/objectstore-gcs': [...BACKEND, '@google-cloud/storage', 'google-auth-library'],
  '@nexus/objectstore-azure': [...BACKEND, '@azure/*'],
}

/** Private packages publish nothing, so they may use what they like. */
export const FREE = new Set([
  '@nexus/tooling',
  '@nexus/bench',
  '@nexus/proof',
  '@nexus/objectstore-seamcheck',
  '@nexus/objectstore-emulators',
  '@nexus/independent-reader',
])
