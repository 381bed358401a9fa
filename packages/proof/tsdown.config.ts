import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

// A file per source file: the soak finds its host process relative to itself.
const config: UserConfig = {
  ...base,
  unbundle: true,
  dts: false,
  entry: ['src/soak.ts', 'src/mutants.ts', 'src/soak/host-child.ts'],
}

export default config
