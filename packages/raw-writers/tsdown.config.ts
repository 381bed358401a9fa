import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

const config: UserConfig = { ...base, entry: ['src/index.ts'] }

export default config
