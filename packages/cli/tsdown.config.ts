import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

const config: UserConfig = {
  ...base,
  entry: ['src/index.ts', 'src/bin.ts', 'src/demo/host.ts', 'src/demo/crash-test.ts'],
}

export default config
