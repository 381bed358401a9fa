import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

const config: UserConfig = {
  ...base,
  entry: {
    index: 'src/index.ts',
    config: 'src/config.ts',
    failpoints: 'src/failpoints.ts',
    history: 'src/session/history.ts',
    journal: 'src/journal.ts',
    manifest: 'src/manifest.ts',
  },
}

export default config
