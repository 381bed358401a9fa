import { defineConfig } from 'vitest/config'

const conditions = ['@nexus/source']

// Tests read the sources. Worker threads and child processes inherit execArgv, so they run from source too.
export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['{packages,modules}/*/{src,test}/**/*.test.ts'],
    pool: 'forks',
    execArgv: ['--import', 'tsx', '--conditions', '@nexus/source'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
