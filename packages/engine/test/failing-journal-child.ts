import { Engine, silentLogger } from '../src/index.ts'

// Runs under a limit on the size of files: the journal reaches it, and can't be written from then on.
process.on('SIGXFSZ', () => undefined)
const root = process.argv[2] ?? ''
const engine = await Engine.fromConfig(
  {
    core: { sessions: { root: `${root}/sessions` }, storage: { root } },
    engine: { shutdown: { drain_timeout: '1s' } },
  },
  { logger: silentLogger },
)
const errors: unknown[] = []
engine.bus.subscribe('core.error', ({ payload }) => void errors.push(payload))
await engine.boot()
for (let n = 0; n < 80; n++) {
  await engine.bus.emit('tool.result', { id: '1', name: 'x', output: 'y'.repeat(1_000) })
}
await new Promise((resolve) => setTimeout(resolve, 100))
const { journalBehind } = engine.status()
const input = await engine.submitInput('hello')
const startedMs = performance.now()
await engine.stop()
process.stdout.write(JSON.stringify({ errors, journalBehind, input, stopMs: performance.now() - startedMs }))
