import process from 'node:process'
import '@nexus/objectstore-fs'
import { Engine, silentLogger, type Plugin } from '../src/index.ts'

/**
 * Serves a session until a signal. `hangs`: a plugin of it never finishes its shutdown; `bootMs`: how long one takes to come up;
 * `bucket`: a directory to store to.
 */
const { root, hangs, bootMs, bucket } = JSON.parse(process.argv[2] ?? '{}') as RunOrder

interface RunOrder {
  root: string
  hangs: boolean
  bootMs?: number
  bucket?: string
}

const clerk: Plugin = {
  id: 'test.clerk',
  name: 'Clerk',
  version: '1.0.0',
  init: async () => {
    if (bootMs === undefined) return
    process.send?.('booting')
    await new Promise((resolve) => setTimeout(resolve, bootMs))
  },
  ready: () => void setTimeout(() => process.send?.('ready')),
  shutdown: async () => {
    process.send?.('stopping')
    if (hangs) await new Promise(() => undefined)
  },
}

const engine = await Engine.fromConfig(
  {
    core: {
      sessions: { root: `${root}/sessions`, retention: 0 },
      storage: { root },
      ...(bucket === undefined ? {} : { object_store: { backend: 'fs', bucket } }),
    },
  },
  { plugins: [clerk], logger: silentLogger, recallSessionId: 'served' },
)
await engine.run()
process.disconnect?.()
