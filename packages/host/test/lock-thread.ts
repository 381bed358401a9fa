import { parentPort, workerData } from 'node:worker_threads'
import { acquireSessionLock } from '../src/lock/session-lock.ts'

// A worker thread that opens the session and is ended from outside, or by itself.
const { dir } = workerData as { dir: string }
await acquireSessionLock(dir, { transport: 'thread' })
parentPort?.on('message', (how: 'exit' | 'throw') => {
  if (how === 'exit') process.exit()
  throw new Error('nobody catches this')
})
// oxlint-disable-next-line unicorn/require-post-message-target-origin
parentPort?.postMessage('held')
