import type { CopyOutcome, CopyTask } from './copy-task.ts'

/** What a worker is started with. */
export interface CopyWorkerData {
  /** Present only under test: the worker asks the main thread at each failpoint and waits here for the answer. */
  readonly failpointGate: SharedArrayBuffer | undefined
}

/** Main thread to worker. */
export interface CopyRequest {
  readonly id: number
  readonly task: CopyTask
  /** One Int32: anything but 0 means that the caller gave up. */
  readonly abort: SharedArrayBuffer
}

/** An error in a form that survives structured cloning. */
export interface WireError {
  readonly message: string
  readonly code: string | undefined
}

/** Worker to main thread. `ready` is sent once, when the worker can take requests. */
export type CopyReply =
  | { readonly type: 'ready' }
  | { readonly type: 'failpoint'; readonly name: string }
  | { readonly type: 'done'; readonly id: number; readonly outcome: CopyOutcome }
  | { readonly type: 'failed'; readonly id: number; readonly error: WireError }

/** Values of the failpoint gate. */
export const GATE_WAITING = 0
export const GATE_PASS = 1
export const GATE_THROW = 2

/** A check that throws once the caller has set the flag of a request. */
export function throwWhenSet(abort: SharedArrayBuffer): () => void {
  const flag = new Int32Array(abort)
  return () => {
    if (Atomics.load(flag, 0) !== 0) throw new Error('the caller gave up')
  }
}
