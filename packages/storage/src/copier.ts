import { statSync } from 'node:fs'
import { NexusError } from '@nexus/errors'
import { CopyThread, runHere } from './copy-thread.ts'
import type { CopyOutcome, CopyTask } from './copy-task.ts'
import { discardDestination, reserveDestination } from './destination.ts'
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

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

function weightBytes(job: CopyJob): number {
  const pending = sizeOf(`${job.livePath}-wal`)
  return job.kind === 'checkpoint' ? pending : pending + sizeOf(job.livePath)
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
  readonly #active = new Set<Promise<unknown>>()
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
    if (this.#closed)
      return Promise.reject(new NexusError('CLOSED', 'The storage manager was disposed', { op: 'storage' }))
    if (signal?.aborted) return Promise.reject(signal.reason as Error)
    const abort = new SharedArrayBuffer(4)
    const work = this.#track(this.#work(job, abort))
    if (signal === undefined) return work
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        Atomics.store(new Int32Array(abort), 0, 1)
        reject(signal.reason as Error)
      }
      signal.addEventListener('abort', onAbort, { once: true })
      work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
    })
  }

  /** Ends the worker and waits for what was running. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#thread.close()
    await Promise.allSettled(this.#active)
  }

  #track<T>(work: Promise<T>): Promise<T> {
    this.#active.add(work)
    work.catch(() => undefined).finally(() => this.#active.delete(work))
    return work
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
