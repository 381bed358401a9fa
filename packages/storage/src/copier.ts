import { closedError, CopyThread, runHere } from './copy-thread.ts'
import type { CopyOutcome, CopyTask } from './copy-task.ts'
import { discardDestination, reserveDestination } from './destination.ts'
import { fileSizeBytes } from './file-size.ts'
import { noFailpoint, type Failpoint } from './failpoint.ts'
import { silentLogger, type Logger } from './logger.ts'
import { isBusy } from './sqlite-error.ts'

// About 3 ms of VACUUM INTO; starting a worker costs ten times that.
const INLINE_MAX_BYTES = 1024 * 1024
// A database that once took longer (its disk is slow to sync) goes to the worker from then on.
const INLINE_BUDGET_MS = 10

/** What to copy, as callers know it. */
export type CopyJob =
  | { readonly kind: 'checkpoint'; readonly livePath: string }
  | { readonly kind: 'snapshot' | 'foreign'; readonly livePath: string; readonly destPath: string }

/** What the copier runs with. */
export interface CopierOptions {
  readonly busyTimeoutMs: number
  readonly logger?: Logger | undefined
  readonly failpoint?: Failpoint | undefined
  readonly workerUrl?: URL | undefined
}

interface Running {
  readonly job: CopyJob
  readonly cancel: (reason: unknown) => void
  readonly settled: Promise<void>
}

function weightBytes(job: CopyJob): number {
  const pending = fileSizeBytes(`${job.livePath}-wal`)
  return job.kind === 'checkpoint' ? pending : pending + fileSizeBytes(job.livePath)
}

function toTask(job: CopyJob, busyTimeoutMs: number): CopyTask {
  return { ...job, busyTimeoutMs }
}

/**
 * Runs checkpoints and copies where they don't stall the event loop: small databases here, without waiting for any lock;
 * everything else, and whatever was locked, in the worker.
 */
export class Copier {
  readonly #options: CopierOptions
  readonly #thread: CopyThread
  readonly #slow = new Set<string>()
  readonly #running = new Set<Running>()
  #closed = false

  constructor(options: CopierOptions) {
    this.#options = options
    this.#thread = new CopyThread({
      logger: options.logger ?? silentLogger,
      failpoint: options.failpoint,
      workerUrl: options.workerUrl,
    })
  }

  /** Whether a job is done on the calling thread, and so before the call returns, if nothing holds a lock. */
  isInline(job: CopyJob): boolean {
    return !this.#slow.has(job.livePath) && weightBytes(job) <= INLINE_MAX_BYTES
  }

  /**
   * Does one job; rejects with SQLite's error, a NexusError, or the reason of the signal. A copy that isn't finished leaves
   * no file behind; after an abort it goes as soon as SQLite lets go of it.
   */
  run(job: CopyJob, signal: AbortSignal | undefined): Promise<CopyOutcome> {
    if (this.#closed) return Promise.reject(closedError(job.livePath))
    if (signal?.aborted) return Promise.reject(signal.reason as Error)
    return new Promise((resolve, reject) => {
      const abort = new SharedArrayBuffer(4)
      const cancel = (reason: unknown): void => {
        Atomics.store(new Int32Array(abort), 0, 1)
        reject(reason)
      }
      const entry: Running = { job, cancel, settled: this.#work(job, abort).then(resolve, reject) }
      const onAbort = (): void => cancel(signal?.reason)
      this.#running.add(entry)
      signal?.addEventListener('abort', onAbort)
      void entry.settled.then(() => {
        this.#running.delete(entry)
        signal?.removeEventListener('abort', onAbort)
      })
    })
  }

  /** Rejects everything that runs or waits, with `CLOSED`. */
  cancelAll(): void {
    for (const { job, cancel } of this.#running) cancel(closedError(job.livePath))
  }

  /** Ends the worker, and waits until nothing that was running can touch a file any more. */
  async close(): Promise<void> {
    this.#closed = true
    this.cancelAll()
    await this.#thread.close()
    await Promise.all([...this.#running].map(({ settled }) => settled))
  }

  async #work(job: CopyJob, abort: SharedArrayBuffer): Promise<CopyOutcome> {
    if (job.kind === 'checkpoint') return this.#perform(job, abort)
    reserveDestination(job.destPath)
    try {
      ;(this.#options.failpoint ?? noFailpoint)('storage:reserved')
      const outcome = await this.#perform(job, abort)
      if (Atomics.load(new Int32Array(abort), 0) !== 0) throw new Error('the caller gave up')
      return outcome
    } catch (error) {
      discardDestination(job.destPath)
      throw error
    }
  }

  async #perform(job: CopyJob, abort: SharedArrayBuffer): Promise<CopyOutcome> {
    const emptyAgain = (): void => {
      if (job.kind === 'checkpoint') return
      discardDestination(job.destPath)
      reserveDestination(job.destPath)
    }
    if (this.isInline(job)) {
      const startedMs = performance.now()
      try {
        return await runHere(toTask(job, 0), abort, this.#options.failpoint)
      } catch (error) {
        if (!isBusy(error)) throw error
        emptyAgain()
      } finally {
        if (performance.now() - startedMs > INLINE_BUDGET_MS) this.#slow.add(job.livePath)
      }
    }
    return this.#thread.run(toTask(job, this.#options.busyTimeoutMs), abort, emptyAgain)
  }
}
