import type { UserConfig } from 'tsdown'
import { base } from '../../tsdown.base.ts'

const config: UserConfig = {
  ...base,
  entry: {
    index: 'src/index.ts',
    driver: 'src/driver.ts',
    'objectstore-fs-worker': 'src/worker/objectstore-fs-worker.ts',
  },
}

export default config
