import { describeBackendContract } from '@nexus/objectstore-contract'
import { describe, it } from 'vitest'
import { createMemoryBackend, withoutCapabilities } from '../src/driver.ts'
import { circumstances } from './circumstances.ts'
import { plant } from './plant.ts'

describeBackendContract(() => createMemoryBackend(), { describe, it, title: 'memory backend', plant, ...circumstances })

describeBackendContract(
  async () => {
    const backend = createMemoryBackend({ prefix: 'deploy+1/\u00e9' })
    // Neighbours of the prefix that must never show.
    for (const key of ['other', 'deploy+1/\u00e9x/a', 'deploy+1/e\u0301/a', 'deploy+1/\u00e9']) {
      backend.objects.set(key, { bytes: Buffer.from('not ours'), modTime: new Date() })
    }
    return backend
  },
  { describe, it, title: 'memory backend below a prefix', plant },
)

describeBackendContract(() => withoutCapabilities(createMemoryBackend(), ['get', 'putIfAbsent', 'classify', 'close']), {
  describe,
  it,
  title: 'memory backend without capabilities',
  listProbeCount: 50,
})
