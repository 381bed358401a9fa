import { noFailpoint, type Logger, type SyncFailpoint } from '@nexus/host'
import { fileSizeBytes } from '../open/file-size.ts'
import type { Place } from '../open/place.ts'
import { closedError, isBusy } from '../open/sqlite-error.ts'
import { copyInChild } from './copy-child.ts'
import { runHere, type CopyPool } from './copy-pool.ts'
import { isAborted } from './copy-protocol.ts'
import { isLarge, type CopyOutcome, type CopyTask } from './copy-task.ts'
import { discardDestination, reserveDestination } from './destination.ts'

// A WAL of this size is moved into its database as fast as a database of it is copied.
const INLINE_WAL_BYTES = 1024 * 1024
// A database that once took longer (its disk is slow to sync) goes to a worker from then on.
const INLINE_BUDGET_MS = 10

/** What to do with which database. */
export type CopyJob =
  /** `keepWal` moves frames and leaves the WAL as it is. */
  | { readonly kind: 'checkpoint'; readonly place: Place; readonly keepWal?: true }
  | { readonly kind: 'snapshot'; readonly place: Place; readonly destPath: string }
  | {
      readonly kind: 'foreign'
      readonly place: Place
      readonly destPath: string
      readonly alias: string | undefined
      /** In a process of its own, whose locks count where this one has lost its own. */
      readonly inChild?: boolean
    }

/** What the copier runs with. */
export interface CopierOptions {
  readonly busyTimeoutMs: number
  readonly pool: CopyPool
  readonly logger: Logger
  readonly failpoint: SyncFailpoint | undefined
}

interface Running {
  readonly job: CopyJob
  readonly cancel: (reason: unknown) => void
  readonly settled: Promise<void>
}

function toTask({ place, ...job }: CopyJob, busyTimeoutMs: number): CopyTask {
  return { ...job, livePath: place.path, root: place.root, busyTimeoutMs }
}

/**
 * Runs checkpoints and copies where they don't stall the event loop: small databases here, without waiting for any lock;
 * everything else, and whatever was locked, in the workers of the process.
 */
export class Copier {
  readonly #options: CopierOptions
  readonly #slow = new Set<string>()
  readonly #running = new Set<Running>()
  #closed = false

  constructor(options: CopierOptions) {
    this.#options = options
  }

  /** Whether a job is done on the calling thread, and so before the call returns, if nothing holds a lock. */
  isInline({ kind, place: { path } }: CopyJob): boolean {
    if (this.#slow.has(path)) return false
    try {
      return kind === 'checkpoint' ? fileSizeBytes(`${path}-wal`) <= INLINE_WAL_BYTES : !isLarge(path)
    } catch {
      // What can't be looked at fails when it is opened, and that error says more.
      return false
    }
  }

  /**
   * Does one job; rejects with SQLite's error, a NexusError, or the reason of the signal. A copy that isn't finished leaves
   * no file behind; after an abort it goes as soon as SQLite lets go of it.
   */
  run(job: CopyJob, signal: AbortSignal | undefined): Promise<CopyOutcome> {
    if (this.#closed) return Promise.reject(closedError(job.place.path))
    if (signal?.aborted) return Promise.reject(signal.reason as Error)
    return new Promise((resolve, reject) => {
      const abort = new SharedArrayBuffer(4)
      const cancel = (reason: unknown): void => {
        Atomics.store(new Int32Array(abort), 0, 1)
        reject(reason)
        this.#options.pool.dropAborted()
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
    for (const { job, cancel } of this.#running) cancel(closedError(job.place.path))
  }

  /** Takes no more jobs, and waits until nothing that was running can touch a file any more. */
  async close(): Promise<void> {
    this.#closed = true
    this.cancelAll()
    await Promise.all([...this.#running].map(({ settled }) => settled))
  }

  async #work(job: CopyJob, abort: SharedArrayBuffer): Promise<CopyOutcome> {
    if (job.kind === 'checkpoint') return this.#perform(job, abort)
    reserveDestination(job.destPath)
    try {
      ;(this.#options.failpoint ?? noFailpoint)('storage:reserved')
      const outcome = await this.#perform(job, abort)
      if (isAborted(abort)) throw new Error('the caller gave up')
      return outcome
    } catch (error) {
      discardDestination(job.destPath)
      throw error
    }
  }

  async #perform(job: CopyJob, abort: SharedArrayBuffer): Promise<CopyOutcome> {
    const { pool, busyTimeoutMs, failpoint, logger } = this.#options
    if (job.kind === 'foreign' && job.inChild === true) return copyInChild(toTask(job, busyTimeoutMs), abort)
    const beforeRetry = (): void => {
      if (job.kind === 'checkpoint') return
      discardDestination(job.destPath)
      reserveDestination(job.destPath)
    }
    if (this.isInline(job)) {
      const startedMs = performance.now()
      try {
        return await runHere({ task: toTask(job, 0), abort, failpoint })
      } catch (error) {
        if (!isBusy(error)) throw error
        beforeRetry()
      } finally {
        if (performance.now() - startedMs > INLINE_BUDGET_MS) this.#slow.add(job.place.path)
      }
    }
    return pool.run({ task: toTask(job, busyTimeoutMs), abort, beforeRetry, logger, failpoint })
  }
}
