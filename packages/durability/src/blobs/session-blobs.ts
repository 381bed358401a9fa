import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { CommitGuard } from '../commit/commit-guard.ts'
import type { DeferredPush, RecoveryWorker } from '../outage/recovery.ts'
import type { StoreLedger } from '../outage/store-ledger.ts'
import type { RunContext } from '../run-context.ts'
import { blobPaths, repairBlob } from './blob-repair.ts'
import { BlobWriteThrough, type PushOutcome } from './write-through.ts'

/** Who knows the store's state, and who hears of what happens to blobs. */
export interface BlobParts {
  guard: CommitGuard
  ledger: StoreLedger
  recovery: RecoveryWorker
}

/** Connects the session's blob store to the object store: uploads on write, says what may be evicted, repairs misses. */
export class SessionBlobs {
  readonly #run: RunContext
  readonly #parts: BlobParts
  readonly #life = new AbortController()
  readonly #writeThrough: BlobWriteThrough
  /** What the blob store of the session is to be opened with. */
  readonly hooks: {
    onPut: (blob: { sha256: string }) => void
    canEvict: (sha256: string) => boolean
    onMiss: (sha256: string) => Promise<boolean>
  }

  constructor(run: RunContext, parts: BlobParts) {
    const { clock, timings, committed, layout, fence } = run
    const { guard, ledger, recovery } = parts
    this.#run = run
    this.#parts = parts
    this.#writeThrough = new BlobWriteThrough({
      clock,
      queueLimit: timings.writeThroughLimit,
      quietMs: timings.quietMs,
      holdsBack: () => ledger.outage.state !== undefined || guard.undecided,
      defer: (push) => recovery.owePush(push),
      push: (push, signal) => this.push(push, signal),
      flush: async (signal) => void (await this.flush(signal)),
    })
    this.hooks = {
      onPut: ({ sha256 }) => {
        if (!run.isEnding && !fence.signal.aborted) this.#writeThrough.take(this.#objectsOf(sha256))
      },
      canEvict: (sha256) => committed.names(blobPaths(sha256).bin),
      onMiss: (sha256) => repairBlob(layout, sha256, { sessionDir: run.sessionDir, signal: this.#life.signal }),
    }
  }

  get queued(): number {
    return this.#writeThrough.queued
  }

  /** Uploads one object. A failure is reported, never thrown. */
  async push(push: DeferredPush, signal: AbortSignal): Promise<PushOutcome> {
    const { layout, timings, outbox, logger, fence } = this.#run
    const { guard, ledger } = this.#parts
    // Deleted by its owner: nothing refers to it any more.
    if (!existsSync(push.localPath)) return 'gone'
    try {
      await guard.confirmIfOld(2 * timings.heartbeatMs, signal)
      fence.check()
      await layout.pushBlob(push.path, push.localPath, signal)
      ledger.outage.succeeded()
      return 'stored'
    } catch (error) {
      if (signal.aborted || fence.signal.aborted) return 'failed'
      if (!existsSync(push.localPath)) return 'gone'
      logger.warn({ err: error, path: push.path }, 'a blob could not be stored ahead of its turn')
      ledger.pushFailed(error as Error)
      await outbox.flush()
      return 'failed'
    }
  }

  /** Makes pushes durable; false when the store failed, which was reported. */
  async flush(signal: AbortSignal): Promise<boolean> {
    const { store, outbox, logger } = this.#run
    try {
      await store.flush({ signal })
      return true
    } catch (error) {
      if (signal.aborted) return false
      logger.warn({ err: error }, 'blobs that were stored ahead of their turn could not be flushed')
      this.#parts.ledger.flushFailed(error as Error)
      await outbox.flush()
      return false
    }
  }

  /** Uploads what waits, until the signal fires. */
  drain(signal: AbortSignal): Promise<void> {
    return this.#writeThrough.drain(signal)
  }

  /** Drops what waits to be uploaded and ends uploads that run. Misses are still repaired. */
  discard(): void {
    this.#writeThrough.discard()
  }

  /** {@link discard}, and no more repairs. */
  close(): void {
    this.discard()
    this.#life.abort(new DOMException('the run ends', 'AbortError'))
  }

  #objectsOf(sha256: string): DeferredPush[] {
    const { sessionDir } = this.#run
    const { bin, meta } = blobPaths(sha256)
    return [bin, meta].map((path) => ({ path, localPath: join(sessionDir, path) }))
  }
}
