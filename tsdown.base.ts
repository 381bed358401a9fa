import type { UserConfig } from 'tsdown'

/**
 * One build for every package: ESM only, declarations and source maps beside it. Sources are joined into few files, since
 * each file costs every importer a millisecond at start-up; entries and what is imported lazily stay apart. All files of
 * a build lie in one directory, so that a worker is found beside the code that starts it, as in the sources.
 */
export const base: UserConfig = {
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  outputOptions: { chunkFileNames: '[name].chunk.js' },
  fixedExtension: false,
  dts: true,
  sourcemap: true,
  clean: true,
  logLevel: 'warn',
}
