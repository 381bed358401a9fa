import { configDefaults, defineConfig, mergeConfig, type ViteUserConfig } from 'vitest/config'
import fast from './vitest.config.ts'

// Proofs too long to wait for between two edits: real kills by the hundred, large files, packed packages.
const config: ViteUserConfig = mergeConfig(
  fast,
  defineConfig({ test: { testTimeout: 300_000, hookTimeout: 300_000 } }),
) as ViteUserConfig
config.test = {
  ...config.test,
  include: ['{packages,modules}/*/{src,test}/**/*.slow.test.ts'],
  exclude: configDefaults.exclude,
}

export default config
