import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

const config: UserConfig = { ...base, entry: { index: 'src/index.ts', 'copy-worker': 'src/copy/copy-worker.ts' } }

export default config
