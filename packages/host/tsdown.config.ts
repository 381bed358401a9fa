import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

const config: UserConfig = {
  ...base,
  entry: { index: 'src/index.ts', 'digest-worker': 'src/files/digest-worker.ts' },
}

export default config
