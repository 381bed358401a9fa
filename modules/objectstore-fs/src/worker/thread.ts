import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { MessageChannel, Worker } from 'node:worker_threads'
import type { FromWorker, ToWorker, WorkerData } from './protocol.ts'
import { serve } from './serve.ts'

/** Where the calls on a bucket run. */
export interface Thread {
  /** Whether it is a thread of its own, and not the one that started it. */
  readonly isOwn: boolean
  post(message: ToWorker): void
  onMessage(listener: (message: FromWorker) => void): void
  /** The thread is gone, with what broke it. */
  onExit(listener: (failure: unknown) => void): void
  ref(): void
  unref(): void
  terminate(): Promise<unknown>
}

const WORKER_NAME = 'objectstore-fs-worker'

/** Where the worker's code is: a source in tests, its build in a package. Undefined in a bundle that did not take it along. */
export function findWorkerFile(moduleUrl: string | undefined): URL | undefined {
  // In a bundle of CommonJS there is no such URL.
  if (moduleUrl?.startsWith('file:') !== true) return undefined
  const url = new URL(`./${WORKER_NAME}${moduleUrl.endsWith('.ts') ? '.ts' : '.js'}`, moduleUrl)
  return existsSync(fileURLToPath(url)) ? url : undefined
}

/** Starts a thread for a bucket. Without a file for it the calls run here, with all that follows from a dead mount. */
export function startThread(file: URL | undefined, data: WorkerData): Thread {
  return file === undefined ? startHere(data) : startWorker(file, data)
}

function startWorker(file: URL, workerData: WorkerData): Thread {
  const worker = new Worker(file, {
    workerData,
    name: 'nexus-fs-bucket',
    // Flags of the process, like --input-type, are not for this thread. Sources need their loader.
    ...(file.pathname.endsWith('.js') ? { execArgv: [] } : {}),
  })
  let failure: unknown
  worker.on('error', (error) => (failure = error))
  return {
    isOwn: true,
    // The rule means windows, which check an origin; threads have none.
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    post: (message) => worker.postMessage(message),
    onMessage: (listener) => void worker.on('message', listener),
    onExit: (listener) => void worker.on('exit', () => listener(failure)),
    ref: () => worker.ref(),
    unref: () => worker.unref(),
    terminate: () => worker.terminate(),
  }
}

function startHere(data: WorkerData): Thread {
  const { port1: near, port2: far } = new MessageChannel()
  serve(far, data)
  far.unref()
  return {
    isOwn: false,
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    post: (message) => near.postMessage(message),
    onMessage: (listener) => void near.on('message', listener),
    onExit: () => undefined,
    ref: () => near.ref(),
    unref: () => near.unref(),
    terminate: async () => near.close(),
  }
}
