import process from 'node:process'
import { Engine, silentLogger, type Plugin } from '../src/index.ts'

/** Serves a session until a signal; with `hangs`, a plugin of it never finishes its shutdown. */
const { root, hangs } = JSON.parse(process.argv[2] ?? '{}') as { root: string; hangs: boolean }

const clerk: Plugin = {
  id: 'test.clerk',
  name: 'Clerk',
  version: '1.0.0',
  init: () => undefined,
  ready: () => void setTimeout(() => process.send?.('ready')),
  shutdown: async () => {
    process.send?.('stopping')
    if (hangs) await new Promise(() => undefined)
  },
}

const engine = await Engine.fromConfig(
  { core: { sessions: { root: `${root}/sessions`, retention: 0 }, storage: { root } } },
  { plugins: [clerk], logger: silentLogger, recallSessionId: 'served' },
)
await engine.run()
process.disconnect?.()
