import type { CopyOutcome, CopyTask } from './copy-task.ts'

/** Main thread to worker: one at a time. */
export interface CopyRequest {
  readonly task: CopyTask
  /** One Int32: anything but 0 means that the caller gave up. */
  readonly abort: SharedArrayBuffer
  /** Present only under test: the worker asks the main thread at each failpoint and waits here for the answer. */
  readonly failpointGate: SharedArrayBuffer | undefined
}

/** An error in a form that survives structured cloning. */
export interface WireError {
  readonly message: string
  readonly code: string | undefined
  /** What had run out when it happened. */
  readonly exhausted: string | undefined
}

/** Worker to main thread. `ready` is sent once, when the worker can take requests. */
export type CopyReply =
  | { readonly type: 'ready' }
  | { readonly type: 'failpoint'; readonly name: string }
  | { readonly type: 'done'; readonly outcome: CopyOutcome }
  | { readonly type: 'failed'; readonly error: WireError }

/** Values of the failpoint gate. */
export const GATE_WAITING = 0
export const GATE_PASS = 1
export const GATE_THROW = 2

/** Whether the caller has set the flag of a request. */
export function isAborted(abort: SharedArrayBuffer): boolean {
  return Atomics.load(new Int32Array(abort), 0) !== 0
}

/** Ends a request that the caller gave up. */
export function throwWhenAborted(abort: SharedArrayBuffer): void {
  if (isAborted(abort)) throw new Error('the caller gave up')
}
