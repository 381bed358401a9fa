import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { ObjectStore } from '@nexus/objectstore'
import { createMemoryBackend } from '@nexus/objectstore-memory-test'
import { openSessionDurability } from '../src/session-durability.ts'

// Runs in a child process: <forgets|awaits> <disk>. Ends by itself, or the parent's patience does.
const [story, disk = ''] = process.argv.slice(2)
const backend = createMemoryBackend()
const durability = openSessionDurability({
  store: new ObjectStore(backend, { name: 'memory-test' }),
  backendName: 'memory-test',
  storeId: 'memory-test',
  sessionId: 's1',
  sessionsRoot: join(disk, 'sessions'),
  storageRoot: join(disk, 'storage'),
  policy: 'degrade',
  staleLocal: 'set-aside',
  onLost: 'stop',
  onMixed: 'warn',
  instanceId: 'child',
  host: 'child',
  pid: process.pid,
})
mkdirSync(join(disk, 'sessions', 's1', 'journal'), { recursive: true })
await durability.resolveTree({
  localExists: true,
  prepareStaging: async () => undefined,
  createTree: async () => undefined,
})
await durability.claimOwner()
durability.attach({ tell: async () => undefined })
await durability.raiseDeferred()
if (story === 'forgets') {
  // An outage, a retry and a heartbeat are pending, and nobody stops the run.
  backend.faults.failWhen(() => true)
  await durability.snapshot('request').catch(() => undefined)
} else {
  // Nothing else is going on while the end waits for a store that never answers.
  backend.faults.hang(() => true, { ignoreSignal: true })
  await durability.finish({ clean: true, timeoutMs: 300 })
}
process.stdout.write('the end\n')
