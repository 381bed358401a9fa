import type { ByteRange, Progress } from '@nexus/objectstore'
import type { FoundObject } from '../list.ts'
import type { WireError } from '../errors.ts'
import type { FsOptions } from '../options.ts'

/** What the worker is started with. */
export interface WorkerData {
  options: FsOptions
  /** See {@link ActivityIndex}. */
  activity: SharedArrayBuffer
  /** For tests only. */
  internals: WorkerInternals
}

/** How tests make the worker misbehave. */
export interface WorkerInternals {
  /** Calls of this kind stop dead inside a system call, as on a dead mount, until something writes to this FIFO. */
  hang?: { op: Operation['op']; fifo: string }
  /** How long each chunk of a copy takes more, in ms for a MiB, as on a slow mount. */
  slowMsPerMiB?: number
  /** How long a worker that does not answer is waited for, in ms, instead of the constants. */
  patienceMs?: number
  /** As in a bundle that left the worker's file behind. */
  withoutThread?: boolean
}

/** Words of the shared activity array, by which the main thread can judge a worker that does not answer. */
export const ActivityIndex = {
  /** Calls under way. */
  running: 0,
  /** Changes whenever the worker comes back from its file calls. */
  ticks: 1,
} as const

/** One call on the bucket. Segments are the names from the bucket directory down. */
export type Operation =
  | { op: 'open'; requireMount: boolean }
  | { op: 'put'; key: string; segments: string[]; localPath: string }
  | { op: 'putIfAbsent'; key: string; segments: string[]; localPath: string }
  | { op: 'get'; key: string; segments: string[]; localPath: string; range: ByteRange }
  | { op: 'delete'; key: string; segments: string[] }
  | { op: 'list'; key: string; segments: string[] }
  | { op: 'listNames'; key: string; segments: string[] }
  | { op: 'hydrate'; prefix: string; key: string; segments: string[]; destination: string }
  | { op: 'flush' }

/** What each call answers. */
export interface Answers {
  open: undefined
  put: undefined
  putIfAbsent: boolean
  get: undefined
  delete: undefined
  list: FoundObject[]
  listNames: string[]
  hydrate: undefined
  flush: undefined
}

export type ToWorker =
  | { kind: 'call'; id: number; operation: Operation }
  | { kind: 'abort'; id: number }
  /** The caller has heard the report that asked for it. */
  | { kind: 'heard'; id: number }

export type FromWorker =
  | { kind: 'progress'; id: number; progress: Progress; acknowledge: boolean }
  | { kind: 'done'; id: number; value: unknown; progress: Progress | undefined }
  | { kind: 'failed'; id: number; error: WireError }
  | { kind: 'reclaimed'; files: number }
