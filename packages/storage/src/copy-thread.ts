import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { NexusError } from '@nexus/errors'
import { GATE_PASS, GATE_THROW, throwWhenSet, type CopyReply, type CopyWorkerData } from './copy-protocol.ts'
import { runTask, type CopyOutcome, type CopyTask } from './copy-task.ts'
import { noFailpoint, type Failpoint } from './failpoint.ts'
import type { Logger } from './logger.ts'

const ATTEMPTS = 2

/** What the thread is made of. */
export interface CopyThreadOptions {
  readonly logger: Logger
  /** Absent: the worker runs without asking. */
  readonly failpoint: Failpoint | undefined
  readonly workerUrl?: URL | undefined
}

interface Pending {
  readonly id: number
  readonly task: CopyTask
  readonly abort: SharedArrayBuffer
  readonly beforeRetry: () => void
  readonly resolve: (outcome: CopyOutcome) => void
  readonly reject: (error: unknown) => void
  attempts: number
}

/** What a call gets that came too late, or was running, when the manager was disposed. */
export function closedError(path: string): NexusError {
  return new NexusError('CLOSED', 'The storage manager was disposed', { op: 'storage.snapshot', key: path })
}

// The file beside this one: TypeScript when run from source, JavaScript when built.
function startWorker(url: URL | undefined, workerData: CopyWorkerData): Worker {
  const extension = extname(import.meta.url)
  return new Worker(url ?? new URL(`./copy-worker${extension}`, import.meta.url), {
    workerData,
    name: 'nexus-storage',
    // What the process preloads for itself (tracing, for one) is no business of this thread. Sources need their loader.
    ...(extension === '.js' ? { execArgv: [] } : {}),
  })
}

/**
 * The long-lived worker that large databases are copied in. Started by the first task, one task at a time, holds the process
 * only while it works. When it dies, the task it was on is tried once more in a new one, and the tasks behind it are kept.
 */
export class CopyThread {
  readonly #options: CopyThreadOptions
  readonly #pending = new Map<number, Pending>()
  #gate: SharedArrayBuffer | undefined
  #worker: Worker | undefined
  #everReady = false
  #unavailable = false
  #closed = false
  #nextId = 1
  #inline: Promise<unknown> = Promise.resolve()

  constructor(options: CopyThreadOptions) {
    this.#options = options
  }

  /**
   * Runs a task; rejects with SQLite's error, or `UNAVAILABLE` when the worker died twice over it.
   *
   * @param beforeRetry puts the destination back into its first state after a worker died over it
   * @param abort one Int32 that the caller sets to end the task early
   */
  run(task: CopyTask, abort: SharedArrayBuffer, beforeRetry: () => void): Promise<CopyOutcome> {
    if (this.#closed) return Promise.reject(closedError(task.livePath))
    if (this.#unavailable) return this.#runHere(task, abort)
    return new Promise((resolve, reject) => {
      const entry = { id: this.#nextId++, task, abort, beforeRetry, resolve, reject, attempts: 0 }
      this.#pending.set(entry.id, entry)
      this.#post(entry)
    })
  }

  /** Ends the worker; tasks that were still waiting reject with `CLOSED`. */
  async close(): Promise<void> {
    this.#closed = true
    const worker = this.#worker
    this.#worker = undefined
    // A thread inside SQLite ends when the call does. Only then are the files that it wrote nobody's but the caller's.
    await worker?.terminate()
    await this.#inline
    for (const { task, reject } of this.#pending.values()) reject(closedError(task.livePath))
    this.#pending.clear()
  }

  #post(entry: Pending): void {
    const worker = (this.#worker ??= this.#start())
    worker?.ref()
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    worker?.postMessage({ id: entry.id, task: entry.task, abort: entry.abort })
  }

  #start(): Worker | undefined {
    this.#gate = this.#options.failpoint === undefined ? undefined : new SharedArrayBuffer(4)
    let worker: Worker
    try {
      worker = startWorker(this.#options.workerUrl, { failpointGate: this.#gate })
    } catch (error) {
      this.#lost(error)
      return undefined
    }
    let cause: unknown
    worker.on('message', (reply: CopyReply) => this.#receive(worker, reply))
    worker.on('error', (error) => {
      cause = error
    })
    worker.on('exit', (code) => {
      if (this.#worker === worker) this.#lost(cause ?? new Error(`the worker ended with exit code ${code}`))
    })
    return worker
  }

  #receive(worker: Worker, reply: CopyReply): void {
    if (reply.type === 'ready') {
      this.#everReady = true
    } else if (reply.type === 'failpoint') {
      this.#answerFailpoint(reply.name)
    } else {
      const entry = this.#pending.get(reply.id)
      this.#pending.delete(reply.id)
      if (this.#pending.size === 0) worker.unref()
      if (reply.type === 'done') entry?.resolve(reply.outcome)
      else entry?.reject(Object.assign(new Error(reply.error.message), { code: reply.error.code }))
    }
  }

  #answerFailpoint(name: string): void {
    if (this.#gate === undefined) return
    const gate = new Int32Array(this.#gate)
    let answer = GATE_PASS
    try {
      this.#options.failpoint?.(name)
    } catch {
      answer = GATE_THROW
    }
    Atomics.store(gate, 0, answer)
    Atomics.notify(gate, 0)
  }

  #lost(cause: unknown): void {
    this.#worker = undefined
    const waiting = [...this.#pending.values()]
    this.#pending.clear()
    if (!this.#everReady) return this.#fallBack(waiting, cause)
    this.#options.logger.warn({ err: cause, tasks: waiting.length }, 'the storage worker died: starting another')
    // Tasks run in order, so the first one is what it died over.
    const [first] = waiting
    if (first !== undefined && ++first.attempts >= ATTEMPTS) {
      waiting.shift()
      const message = `The storage worker died twice over ${first.task.livePath}`
      first.reject(new NexusError('UNAVAILABLE', message, { op: 'storage', key: first.task.livePath, cause }))
    }
    for (const entry of waiting) {
      try {
        entry.beforeRetry()
      } catch (error) {
        entry.reject(error)
        continue
      }
      this.#pending.set(entry.id, entry)
      this.#post(entry)
    }
  }

  // A bundler that left the worker file behind must not cost a turn: slower, and said once.
  #fallBack(waiting: readonly Pending[], cause: unknown): void {
    this.#unavailable = true
    this.#options.logger.warn(
      { err: cause },
      'the storage worker can not be started: databases are copied on the main thread, which stalls it. Ship the worker file beside the bundle',
    )
    for (const entry of waiting) this.#runHere(entry.task, entry.abort).then(entry.resolve, entry.reject)
  }

  #runHere(task: CopyTask, abort: SharedArrayBuffer): Promise<CopyOutcome> {
    const result = this.#inline.then(() => runHere(task, abort, this.#options.failpoint))
    this.#inline = result.catch(() => undefined)
    return result
  }
}

/** Runs a task on the calling thread. */
export function runHere(
  task: CopyTask,
  abort: SharedArrayBuffer,
  failpoint: Failpoint = noFailpoint,
): Promise<CopyOutcome> {
  return runTask(task, { failpoint, throwIfAborted: throwWhenSet(abort), onMainThread: true })
}
