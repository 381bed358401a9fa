import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

const config: UserConfig = {
  ...base,
  entry: {
    index: 'src/index.ts',
    events: 'src/events/table.ts',
    history: 'src/versioned/change/public.ts',
    manifest: 'src/manifest.ts',
    names: 'src/names.ts',
    tools: 'src/tools.ts',
  },
}

export default config
