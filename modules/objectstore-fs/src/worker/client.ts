import { type Logger, NexusError, type OpOptions, type Progress } from '@nexus/objectstore'
import { fromWire } from '../errors.ts'
import type { FsOptions } from '../options.ts'
import {
  ActivityIndex,
  type Answers,
  type FromWorker,
  type Operation,
  type ToWorker,
  type WorkerData,
  type WorkerInternals,
} from './protocol.ts'
import { findWorkerFile, startThread, type Thread } from './thread.ts'

/** How long a call that was aborted may take to stop before its caller is let go, in ms. */
const ABORT_GRACE_MS = 2_000
/** How long close waits for calls under way, and for the thread to end, in ms each. */
const CLOSE_MS = 2_000
/** How long a worker may stay in one file call at the end of the process before it counts as stuck, in ms. */
const EXIT_MS = 5_000
/** Calls handed to the worker at once; the others wait here, where an abort reaches them. */
const MAX_IN_WORKER = 64

interface Waiting {
  id: number
  operation: Operation
  onProgress: ((progress: Progress) => void) | undefined
  /** Ends the wait for its turn, which counts against no limit. */
  resume: (() => void) | undefined
  settle: (outcome: { value: unknown } | { error: unknown }) => void
}

const WORKER_FILE = findWorkerFile(import.meta.url)

/**
 * The main thread's end of a bucket's worker. Starts the thread with the first call, keeps the process alive only while
 * calls are under way, and never waits for a thread that does not answer.
 */
export class WorkerClient {
  readonly #options: FsOptions
  readonly #logger: Logger
  readonly #internals: WorkerInternals
  readonly #activity = new Int32Array(new SharedArrayBuffer(8))
  readonly #inWorker = new Map<number, Waiting>()
  readonly #queue: Waiting[] = []
  readonly #onExit = (code: number): void => this.#endOfProcess(code)
  #worker: Thread | undefined
  #nextId = 1
  readonly #idleWaiters: (() => void)[] = []
  #closed = false

  constructor(options: FsOptions, logger: Logger, internals: WorkerInternals = {}) {
    this.#options = options
    this.#logger = logger
    this.#internals = internals
  }

  /**
   * Runs one call. Rejects with the signal's reason once that fires: when the worker has stopped, or after a grace when it
   * is stuck.
   */
  async call<Op extends Operation['op']>(
    operation: Extract<Operation, { op: Op }>,
    { signal, onProgress, onWait }: OpOptions = {},
  ): Promise<Answers[Op]> {
    signal?.throwIfAborted()
    if (this.#closed) throw closedError(operation.op)
    return new Promise<Answers[Op]>((resolve, reject) => {
      let grace: NodeJS.Timeout | undefined
      const onAbort = (): void => {
        if (this.#unqueue(waiting)) return waiting.settle({ error: undefined })
        this.#post({ kind: 'abort', id: waiting.id })
        grace = setTimeout(() => this.#abandon(waiting), this.#patience(ABORT_GRACE_MS))
      }
      const waiting: Waiting = {
        id: this.#nextId++,
        operation,
        onProgress: onProgress && ((progress) => signal?.aborted !== true && onProgress(progress)),
        resume: undefined,
        settle: (outcome) => {
          clearTimeout(grace)
          waiting.resume?.()
          signal?.removeEventListener('abort', onAbort)
          // Whatever came of it: a caller that has given up hears its own reason.
          if (signal?.aborted === true) reject(signal.reason as Error)
          else if ('error' in outcome) reject(outcome.error)
          else resolve(outcome.value as Answers[Op])
        },
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#queue.push(waiting)
      this.#feed()
      if (this.#queue.includes(waiting)) waiting.resume = onWait?.()
    })
  }

  /** Lets calls under way end, and ends the thread; both bounded. Later calls reject with `CLOSED`. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    for (const waiting of this.#queue.splice(0)) waiting.settle({ error: closedError(waiting.operation.op) })
    const worker = this.#worker
    if (worker === undefined) return
    await within(this.#patience(CLOSE_MS), this.#idle())
    for (const waiting of this.#inWorker.values()) waiting.settle({ error: closedError(waiting.operation.op) })
    this.#inWorker.clear()
    const ended = worker.terminate()
    // Not before: terminate makes the thread hold the process again.
    worker.unref()
    if ((await within(this.#patience(CLOSE_MS), ended)) === undefined) {
      this.#logger.error(
        { bucket: this.#options.bucket },
        'a file call on the bucket does not return; its thread is left',
      )
      return
    }
    process.removeListener('exit', this.#onExit)
  }

  #idle(): Promise<true> {
    if (this.#inWorker.size === 0) return Promise.resolve(true)
    return new Promise((resolve) => this.#idleWaiters.push(() => resolve(true)))
  }

  #feed(): void {
    while (this.#inWorker.size < MAX_IN_WORKER) {
      const waiting = this.#queue.shift()
      if (waiting === undefined) break
      this.#worker ??= this.#start()
      waiting.resume?.()
      waiting.resume = undefined
      this.#inWorker.set(waiting.id, waiting)
      this.#worker.ref()
      this.#post({ kind: 'call', id: waiting.id, operation: waiting.operation })
    }
  }

  #start(): Thread {
    const data: WorkerData = {
      options: this.#options,
      activity: this.#activity.buffer,
      internals: this.#internals,
    }
    this.#activity.fill(0)
    const thread = startThread(this.#internals.withoutThread === true ? undefined : WORKER_FILE, data)
    if (!thread.isOwn) {
      const remedy = 'leave @nexus/objectstore-fs out of the bundle, or put its dist/objectstore-fs-worker.js beside it'
      this.#logger.warn(
        { bucket: this.#options.bucket },
        `objectstore-fs-worker.js is missing, so file calls run on this thread and a dead mount would stop it: ${remedy}`,
      )
    }
    thread.onMessage((message) => this.#receive(message))
    thread.onExit((failure) => this.#ended(thread, failure))
    if (thread.isOwn && !process.listeners('exit').includes(this.#onExit)) process.on('exit', this.#onExit)
    return thread
  }

  #receive(message: FromWorker): void {
    if (message.kind === 'reclaimed') {
      const { files } = message
      this.#logger.info({ bucket: this.#options.bucket, files }, 'temporary files of dead processes removed')
      return
    }
    const waiting = this.#inWorker.get(message.id)
    if (message.kind === 'progress') {
      waiting?.onProgress?.(message.progress)
      if (message.acknowledge) this.#post({ kind: 'heard', id: message.id })
      return
    }
    if (waiting === undefined) return
    this.#leave(waiting)
    if (message.kind === 'failed') {
      waiting.settle({ error: fromWire(message.error, waiting.operation.op, keyOf(waiting.operation)) })
      return
    }
    if (message.progress !== undefined) waiting.onProgress?.(message.progress)
    waiting.settle({ value: message.value })
  }

  #leave(waiting: Waiting): void {
    this.#inWorker.delete(waiting.id)
    if (this.#inWorker.size === 0) {
      this.#worker?.unref()
      for (const wake of this.#idleWaiters.splice(0)) wake()
    }
    this.#feed()
  }

  /** The worker does not even hear that it should stop: the caller is let go, and its place stays taken. */
  #abandon(waiting: Waiting): void {
    this.#logger.warn(
      { bucket: this.#options.bucket, op: waiting.operation.op },
      'the bucket directory does not answer: a file call hangs, the caller was let go',
    )
    waiting.onProgress = undefined
    waiting.settle({ error: undefined })
  }

  #unqueue(waiting: Waiting): boolean {
    const index = this.#queue.indexOf(waiting)
    if (index < 0) return false
    this.#queue.splice(index, 1)
    return true
  }

  #ended(worker: Thread, failure: unknown): void {
    if (this.#worker !== worker) return
    this.#worker = undefined
    const lost = [...this.#inWorker.values()]
    this.#inWorker.clear()
    for (const { operation, settle } of lost) {
      const code = operation.op === 'putIfAbsent' ? 'OUTCOME_UNKNOWN' : 'UNAVAILABLE'
      const message = `the worker of bucket ${this.#options.bucket} ended in the middle of ${operation.op}`
      const key = keyOf(operation)
      settle({
        error: new NexusError(code, message, {
          op: `objectstore.${operation.op}`,
          ...(key === undefined ? {} : { key }),
          cause: failure,
        }),
      })
    }
    if (!this.#closed) this.#feed()
  }

  #patience(limitMs: number): number {
    return this.#internals.patienceMs ?? limitMs
  }

  #post(message: ToWorker): void {
    this.#worker?.post(message)
  }

  /**
   * A thread inside a system call that never returns keeps the whole process from ending: Node joins its threads. At this
   * point nothing else is left to do, so a process that would hang ends hard instead.
   */
  #endOfProcess(code: number): void {
    if (Atomics.load(this.#activity, ActivityIndex.running) === 0) return
    const ticks = Atomics.load(this.#activity, ActivityIndex.ticks)
    const untilMs = performance.now() + this.#patience(EXIT_MS)
    while (performance.now() < untilMs) {
      Atomics.wait(this.#activity, ActivityIndex.ticks, ticks, 50)
      const moved = Atomics.load(this.#activity, ActivityIndex.ticks) !== ticks
      if (moved || Atomics.load(this.#activity, ActivityIndex.running) === 0) return
    }
    this.#logger.error(
      { bucket: this.#options.bucket },
      'a file call on the bucket hangs; ending the process by SIGKILL',
    )
    // Those who registered after us have something to do at the end too.
    const listeners = process.rawListeners('exit')
    for (const listener of listeners.slice(listeners.indexOf(this.#onExit) + 1)) {
      try {
        listener.call(process, code)
      } catch {
        // As in any exit: what a listener throws can't be helped any more, and must not keep us here.
      }
    }
    process.kill(process.pid, 'SIGKILL')
  }
}

function keyOf(operation: Operation): string | undefined {
  return 'key' in operation ? operation.key : undefined
}

function closedError(op: string): NexusError {
  return new NexusError('CLOSED', `${op}: the fs backend was closed`, { op: `objectstore.${op}` })
}

/** Undefined when it takes longer. */
async function within<T>(limitMs: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), limitMs)
  })
  try {
    return await Promise.race([work, expired])
  } finally {
    clearTimeout(timer)
  }
}
