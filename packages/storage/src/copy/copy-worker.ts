import { parentPort } from 'node:worker_threads'
import { systemCode } from '@nexus/errors'
import { noteExhaustion } from '../open/sqlite-error.ts'
import { GATE_THROW, GATE_WAITING, throwWhenAborted, type CopyReply, type CopyRequest } from './copy-protocol.ts'
import { runTask } from './copy-task.ts'

const port = parentPort
if (port === null) throw new Error('copy-worker.js is started by the storage manager, as a worker thread')

const reply = (message: CopyReply): void => port.postMessage(message)

function askFailpoint(gateMemory: SharedArrayBuffer | undefined, name: string): void {
  if (gateMemory === undefined) return
  const gate = new Int32Array(gateMemory)
  Atomics.store(gate, 0, GATE_WAITING)
  reply({ type: 'failpoint', name })
  Atomics.wait(gate, 0, GATE_WAITING)
  if (Atomics.load(gate, 0) === GATE_THROW) throw new Error(`failpoint ${name}`)
}

port.on('message', ({ task, abort, failpointGate }: CopyRequest) => {
  const hooks = {
    failpoint: (name: string) => askFailpoint(failpointGate, name),
    throwIfAborted: () => throwWhenAborted(abort),
    onMainThread: false,
  }
  void runTask(task, hooks).then(
    (outcome) => reply({ type: 'done', outcome }),
    (error: unknown) => {
      const message = error instanceof Error ? error.message : String(error)
      reply({ type: 'failed', error: { message, code: systemCode(error), exhausted: noteExhaustion(error) } })
    },
  )
})
reply({ type: 'ready' })
