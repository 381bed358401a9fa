import { openJournaledBus } from './journaled-bus.ts'

// argv: directory of the journal, type of the event in whose handler this process dies.
const [dir, type] = process.argv.slice(2) as [string, string]
const { bus } = await openJournaledBus({ dir })
bus.subscribe(type, () => process.kill(process.pid, 'SIGKILL'))
for (let i = 0; i < 5; i++) void bus.emit('plain', { i })
await bus.emit(type, { text: 'x'.repeat(1000) })
