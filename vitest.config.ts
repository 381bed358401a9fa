import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig, type ViteUserConfig } from 'vitest/config'

const conditions = ['@nexus/source']
const reportFile = process.env['NEXUS_TEST_REPORT']

// Tests read the sources. Worker threads and child processes inherit execArgv, so they run from source too.
const config: ViteUserConfig = defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['{packages,modules}/*/{src,test}/**/*.test.ts'],
    // They have their own command: npm run test:slow.
    exclude: [...configDefaults.exclude, '**/*.slow.test.ts'],
    pool: 'forks',
    // Two for each core: most of a test's time is spent on fsync, on timers and on other processes.
    maxWorkers: 2 * availableParallelism(),
    execArgv: [
      '--import',
      new URL('packages/tooling/src/source/register.mjs', import.meta.url).href,
      '--conditions',
      '@nexus/source',
    ],
    reporters: reportFile === undefined ? ['default'] : ['default', 'json'],
    ...(reportFile === undefined ? {} : { outputFile: { json: reportFile } }),
    testTimeout: 60_000,
    // What is waited for comes late on a machine under load.
    expect: { poll: { timeout: 20_000 } },
    hookTimeout: 60_000,
  },
})

export default config
