import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

const config: UserConfig = { ...base, entry: ['src/main.ts', 'src/large-file-child.ts'] }

export default config
