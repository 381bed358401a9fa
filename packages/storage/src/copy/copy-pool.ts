import type { Worker } from 'node:worker_threads'
import { NexusError } from '@nexus/errors'
import { noFailpoint, WorkerStarter, type Logger, type SyncFailpoint } from '@nexus/host'
import { GATE_PASS, GATE_THROW, isAborted, throwWhenAborted, type CopyReply } from './copy-protocol.ts'
import { runTask, type CopyOutcome, type CopyTask } from './copy-task.ts'

/** How a pool is made; the defaults are those of the process. */
export interface CopyPoolOptions {
  /** Threads at once. More would only fight over the disk. Default 2. */
  readonly maxThreads?: number
  /** How long a thread without work is kept. Default 10 s. */
  readonly idleMs?: number
  /** How long no start is tried after the first that failed; doubles from there to 60 s. Default 1 s. */
  readonly restartMs?: number
  readonly workerUrl?: URL
}

/** One copy for the pool. */
export interface PoolTask {
  readonly task: CopyTask
  /** One Int32 that the caller sets to end the task early. */
  readonly abort: SharedArrayBuffer
  /** Puts the destination back into its first state after a thread died over it. */
  readonly beforeRetry: () => void
  readonly logger: Logger
  /** Absent: the worker runs without asking. */
  readonly failpoint: SyncFailpoint | undefined
}

interface Entry extends PoolTask {
  readonly resolve: (outcome: CopyOutcome) => void
  readonly reject: (error: unknown) => void
  readonly gate: SharedArrayBuffer | undefined
  deaths: number
}

interface Thread {
  readonly worker: Worker
  ready: boolean
  entry: Entry | undefined
  idle: NodeJS.Timeout | undefined
}

const MAX_DEATHS = 2

/**
 * The threads in which large databases are copied: a few for the whole process, shared by every session in it, each with one
 * task at a time. They start when there is work, hold the process only while they work, and end when they had none for a
 * while. When one dies, its task is tried once more in another. Where none can be started (no descriptors left, a bundle that
 * lacks the worker file), copies are made on the calling thread, one after the other, and the start is tried again later.
 */
export class CopyPool {
  readonly #maxThreads: number
  readonly #idleMs: number
  readonly #starter: WorkerStarter
  readonly #threads = new Set<Thread>()
  #queue: Entry[] = []
  #isWorkingHere = false

  constructor({ maxThreads = 2, idleMs = 10_000, restartMs, workerUrl }: CopyPoolOptions = {}) {
    this.#maxThreads = maxThreads
    this.#idleMs = idleMs
    this.#starter = new WorkerStarter({
      name: 'copy-worker',
      moduleUrl: import.meta.url,
      work: 'large databases are copied',
      packageName: '@nexus/storage',
      workerUrl,
      pauseMs: restartMs,
    })
  }

  /** Threads that live now. */
  get threads(): number {
    return this.#threads.size
  }

  /** Runs a task; rejects with SQLite's error, or `UNAVAILABLE` when threads died twice over it. */
  run(task: PoolTask): Promise<CopyOutcome> {
    return new Promise((resolve, reject) => {
      const gate = task.failpoint === undefined ? undefined : new SharedArrayBuffer(4)
      this.#queue.push({ ...task, gate, resolve, reject, deaths: 0 })
      this.#dispatch()
    })
  }

  /** Takes out what waits and was given up; without it, that would wait for the work of others. */
  dropAborted(): void {
    const dropped = this.#queue.filter(({ abort }) => isAborted(abort))
    this.#queue = this.#queue.filter(({ abort }) => !isAborted(abort))
    for (const { reject } of dropped) reject(new Error('the caller gave up'))
  }

  #dispatch(): void {
    for (let entry = this.#queue[0]; entry !== undefined; entry = this.#queue[0]) {
      const thread = [...this.#threads].find((one) => one.entry === undefined) ?? this.#start(entry.logger)
      if (thread === undefined) break
      this.#queue.shift()
      this.#give(thread, entry)
    }
    if (this.#queue.length > 0 && this.#threads.size === 0) this.#workHere()
  }

  #give(thread: Thread, entry: Entry): void {
    clearTimeout(thread.idle)
    thread.entry = entry
    thread.worker.ref()
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    thread.worker.postMessage({ task: entry.task, abort: entry.abort, failpointGate: entry.gate })
  }

  #start(logger: Logger): Thread | undefined {
    if (this.#threads.size >= this.#maxThreads) return undefined
    const worker = this.#starter.start(logger)
    if (worker === undefined) return undefined
    const thread: Thread = { worker, ready: false, entry: undefined, idle: undefined }
    this.#threads.add(thread)
    let cause: unknown
    worker.on('message', (reply: CopyReply) => this.#receive(thread, reply))
    worker.on('error', (error) => {
      cause = error
    })
    worker.on('exit', (code) => this.#ended(thread, cause ?? new Error(`the worker ended with exit code ${code}`)))
    return thread
  }

  #receive(thread: Thread, reply: CopyReply): void {
    if (reply.type === 'ready') {
      thread.ready = true
      this.#starter.succeeded()
    } else if (reply.type === 'failpoint') {
      answerFailpoint(thread.entry, reply.name)
    } else {
      const { entry } = thread
      thread.entry = undefined
      thread.worker.unref()
      thread.idle = setTimeout(() => this.#retire(thread), this.#idleMs).unref()
      if (reply.type === 'done') entry?.resolve(reply.outcome)
      else entry?.reject(Object.assign(new Error(reply.error.message), reply.error))
      this.#dispatch()
    }
  }

  #retire(thread: Thread): void {
    // Out of the set at once: a thread that is ending must not be given work.
    this.#threads.delete(thread)
    void thread.worker.terminate()
  }

  #ended(thread: Thread, cause: unknown): void {
    clearTimeout(thread.idle)
    this.#threads.delete(thread)
    const { entry } = thread
    if (entry !== undefined) {
      if (!thread.ready) {
        this.#starter.failed(cause, entry.logger)
        this.#queue.unshift(entry)
      } else this.#diedOver(entry, cause)
    }
    this.#dispatch()
  }

  #diedOver(entry: Entry, cause: unknown): void {
    const path = entry.task.livePath
    entry.logger.warn({ err: cause, path }, 'the storage worker died: starting another')
    try {
      if (++entry.deaths < MAX_DEATHS) {
        entry.beforeRetry()
        this.#queue.unshift(entry)
        return
      }
      const message = `The storage worker died twice over ${path}`
      entry.reject(new NexusError('UNAVAILABLE', message, { op: 'storage', key: path, cause }))
    } catch (error) {
      entry.reject(error)
    }
  }

  #workHere(): void {
    if (this.#isWorkingHere) return
    this.#isWorkingHere = true
    void this.#drainHere().then(() => {
      this.#isWorkingHere = false
      this.#dispatch()
    })
  }

  async #drainHere(): Promise<void> {
    // As soon as threads may be tried again, or one lives, the rest is theirs.
    while (this.#threads.size === 0 && this.#starter.isPaused) {
      const entry = this.#queue.shift()
      if (entry === undefined) return
      await runHere(entry).then(entry.resolve, entry.reject)
    }
  }
}

let shared: CopyPool | undefined

/** The pool of this process. */
export function processCopyPool(): CopyPool {
  return (shared ??= new CopyPool())
}

/** Runs a task on the calling thread. */
export function runHere({
  task,
  abort,
  failpoint = noFailpoint,
}: Pick<PoolTask, 'task' | 'abort' | 'failpoint'>): Promise<CopyOutcome> {
  return runTask(task, { failpoint, throwIfAborted: () => throwWhenAborted(abort), onMainThread: true })
}

function answerFailpoint(entry: Entry | undefined, name: string): void {
  if (entry?.gate === undefined) return
  const gate = new Int32Array(entry.gate)
  let answer = GATE_PASS
  try {
    entry.failpoint?.(name)
  } catch {
    answer = GATE_THROW
  }
  Atomics.store(gate, 0, answer)
  Atomics.notify(gate, 0)
}
