import { closeSync, openSync } from 'node:fs'
import type { MessagePort } from 'node:worker_threads'
import { runOperation } from './operations.ts'
import { createBucketContext } from '../object/bucket-context.ts'
import { toWire } from '../errors.ts'
import { ActivityIndex, type FromWorker, type Operation, type ToWorker, type WorkerData } from './protocol.ts'
import { WorkerCall } from './worker-call.ts'

/** How often temp files of dead processes are looked for, in ms. */
const RECLAIM_EVERY_MS = 10 * 60 * 1000

/** Runs the calls on a bucket that come in at the port. */
export function serve(port: MessagePort, { options, activity, internals }: WorkerData): void {
  const words = new Int32Array(activity)
  const { hang, slowMsPerMiB = 0 } = internals
  const slowly = (name: string): void => {
    if (name === 'fs:chunk-copied')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, (slowMsPerMiB * context.chunk.length) / 2 ** 20)
  }
  const context = createBucketContext(options, slowMsPerMiB === 0 ? {} : { failpoint: slowly })
  const calls = new Map<number, WorkerCall>()
  let reclaimedAtMs = -Infinity
  // The rule means windows, which check an origin; ports have none.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  const post = (message: FromWorker): void => port.postMessage(message)
  const tick = (): void => void Atomics.add(words, ActivityIndex.ticks, 1)

  const run = async (id: number, operation: Operation): Promise<void> => {
    const call = new WorkerCall(id, post)
    calls.set(id, call)
    Atomics.add(words, ActivityIndex.running, 1)
    try {
      if (hang?.op === operation.op) closeSync(openSync(hang.fifo, 'r'))
      const { value, progress } = await runOperation(context, operation, call)
      post({ kind: 'done', id, value, progress })
    } catch (error) {
      const wire = toWire(error)
      post({ kind: 'failed', id, error: call.signal.aborted ? { ...wire, kind: 'aborted' } : wire })
    } finally {
      calls.delete(id)
      Atomics.sub(words, ActivityIndex.running, 1)
      tick()
      if (performance.now() - reclaimedAtMs > RECLAIM_EVERY_MS) reclaim()
    }
  }
  const reclaim = (): void => {
    reclaimedAtMs = performance.now()
    setImmediate(() => {
      try {
        const files = context.temps.reclaim(Date.now())
        if (files > 0) post({ kind: 'reclaimed', files })
      } catch {
        // Housekeeping: what is wrong with the bucket, the next call reports.
      }
    })
  }

  port.on('message', (message: ToWorker) => {
    tick()
    if (message.kind === 'call') void run(message.id, message.operation)
    else if (message.kind === 'abort') calls.get(message.id)?.abort()
    else calls.get(message.id)?.heard()
  })
}
