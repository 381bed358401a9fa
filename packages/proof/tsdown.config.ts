import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

// A file per source file: soak and fight find their child processes relative to themselves.
const config: UserConfig = {
  ...base,
  unbundle: true,
  dts: false,
  entry: ['src/soak.ts', 'src/fight.ts', 'src/mutants.ts', 'src/soak/host-child.ts', 'src/fight/fighter-child.ts'],
}

export default config
