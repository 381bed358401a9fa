import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

// A file per source file: the demo finds its documents and its host process relative to itself.
const config: UserConfig = {
  ...base,
  unbundle: true,
  entry: ['src/index.ts', 'src/bin.ts', 'src/demo/host.ts', 'src/demo/crash-test.ts'],
}

export default config
