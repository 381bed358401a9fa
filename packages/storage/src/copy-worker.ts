import { parentPort, workerData } from 'node:worker_threads'
import {
  GATE_THROW,
  GATE_WAITING,
  throwWhenSet,
  type CopyReply,
  type CopyRequest,
  type CopyWorkerData,
} from './copy-protocol.ts'
import { runTask } from './copy-task.ts'
import type { Failpoint } from './failpoint.ts'

const port = parentPort
if (port === null) throw new Error('copy-worker.js is started by the storage manager, as a worker thread')

const { failpointGate } = workerData as CopyWorkerData
const reply = (message: CopyReply): void => port.postMessage(message)

const failpoint: Failpoint = (name) => {
  if (failpointGate === undefined) return
  const gate = new Int32Array(failpointGate)
  Atomics.store(gate, 0, GATE_WAITING)
  reply({ type: 'failpoint', name })
  Atomics.wait(gate, 0, GATE_WAITING)
  if (Atomics.load(gate, 0) === GATE_THROW) throw new Error(`failpoint ${name}`)
}

async function serve({ id, task, abort }: CopyRequest): Promise<void> {
  try {
    const hooks = { failpoint, throwIfAborted: throwWhenSet(abort), onMainThread: false }
    reply({ type: 'done', id, outcome: await runTask(task, hooks) })
  } catch (error) {
    const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined
    reply({
      type: 'failed',
      id,
      error: {
        message: error instanceof Error ? error.message : String(error),
        code: typeof code === 'string' ? code : undefined,
      },
    })
  }
}

// One after the other: two copies at once would only fight over the disk, and the order tells which task a death belongs to.
let tail: Promise<void> = Promise.resolve()
port.on('message', (request: CopyRequest) => {
  tail = tail.then(() => serve(request))
})
reply({ type: 'ready' })
