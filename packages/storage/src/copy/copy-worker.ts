import process from 'node:process'
import { parentPort, type MessagePort } from 'node:worker_threads'
import { systemCode } from '@nexus/errors'
import { noFailpoint } from '@nexus/host'
import { noteExhaustion } from '../open/sqlite-error.ts'
import {
  GATE_THROW,
  GATE_WAITING,
  throwWhenAborted,
  type CopyReply,
  type CopyRequest,
  type WireError,
} from './copy-protocol.ts'
import { runTask, type CopyTask, type TaskHooks } from './copy-task.ts'

function askFailpoint(port: MessagePort, gateMemory: SharedArrayBuffer | undefined, name: string): void {
  if (gateMemory === undefined) return
  const gate = new Int32Array(gateMemory)
  Atomics.store(gate, 0, GATE_WAITING)
  port.postMessage({ type: 'failpoint', name } satisfies CopyReply)
  Atomics.wait(gate, 0, GATE_WAITING)
  if (Atomics.load(gate, 0) === GATE_THROW) throw new Error(`failpoint ${name}`)
}

async function replyTo(task: CopyTask, hooks: TaskHooks): Promise<CopyReply> {
  try {
    return { type: 'done', outcome: await runTask(task, hooks) }
  } catch (error) {
    return { type: 'failed', error: toWire(error) }
  }
}

function toWire(error: unknown): WireError {
  const message = error instanceof Error ? error.message : String(error)
  return { message, code: systemCode(error), exhausted: noteExhaustion(error) }
}

if (parentPort !== null) {
  const port = parentPort
  port.on('message', ({ task, abort, failpointGate }: CopyRequest) => {
    const hooks = {
      failpoint: (name: string) => askFailpoint(port, failpointGate, name),
      throwIfAborted: () => throwWhenAborted(abort),
      onMainThread: false,
    }
    void replyTo(task, hooks).then((reply) => port.postMessage(reply))
  })
  port.postMessage({ type: 'ready' } satisfies CopyReply)
} else if (process.send !== undefined) {
  // A process of its own: one task, and the parent kills it when that isn't wanted any more.
  process.once('message', (task: CopyTask) => {
    const hooks = { failpoint: noFailpoint, throwIfAborted: () => undefined, onMainThread: false }
    void replyTo(task, hooks).then((reply) => process.send?.(reply, () => process.disconnect()))
  })
} else {
  throw new Error('copy-worker.js is started by the storage manager, as a worker thread or a child process')
}
