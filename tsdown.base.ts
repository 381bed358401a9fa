import type { UserConfig } from 'tsdown'

/** One build for every package: ESM only, a file per source file, declarations and source maps beside it. */
export const base: UserConfig = {
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  unbundle: true,
  fixedExtension: false,
  dts: true,
  sourcemap: true,
  clean: true,
  logLevel: 'warn',
}
