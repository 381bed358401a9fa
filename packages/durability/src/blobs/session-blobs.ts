import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ObjectStore } from '@nexus/objectstore'
import type { Clock, Logger } from '@nexus/host'
import { blobPaths, repairBlob } from './blob-repair.ts'
import type { CommittedGeneration } from '../commit/committed-generation.ts'
import type { DeferredPush } from '../outage/recovery.ts'
import { BlobWriteThrough, type PushOutcome } from './write-through.ts'

/** What {@link SessionBlobs} tells its owner; none of these throws. */
export interface BlobTroubles {
  /** Makes sure that a process which stood still still owns the session; rejects when not. */
  confirm(signal: AbortSignal): Promise<void>
  /** The store must not be bothered now. */
  holdsBack(): boolean
  /** Nothing may be written any more. */
  isOver(): boolean
  pushFailed(error: Error): void
  flushFailed(error: Error): void
  succeeded(): void
  defer(push: DeferredPush): void
  /** Lets the events of a failure out. */
  announce(): Promise<void>
}

export interface SessionBlobsOptions {
  store: ObjectStore
  treePrefix: string
  sessionDir: string
  committed: CommittedGeneration
  clock: Clock
  logger: Logger
  queueLimit: number
  quietMs: number
  troubles: BlobTroubles
}

/** Connects the session's blob store to the object store: uploads on write, says what may be evicted, repairs misses. */
export class SessionBlobs {
  readonly #options: SessionBlobsOptions
  readonly #life = new AbortController()
  readonly #writeThrough: BlobWriteThrough
  /** What the blob store of the session is to be opened with. */
  readonly hooks: {
    onPut: (blob: { sha256: string }) => void
    canEvict: (sha256: string) => boolean
    onMiss: (sha256: string) => Promise<boolean>
  }

  constructor(options: SessionBlobsOptions) {
    const { clock, queueLimit, quietMs, troubles, committed, store, treePrefix, sessionDir } = options
    this.#options = options
    this.#writeThrough = new BlobWriteThrough({
      clock,
      queueLimit,
      quietMs,
      holdsBack: () => troubles.holdsBack(),
      defer: (push) => troubles.defer(push),
      push: (push, signal) => this.push(push, signal),
      flush: async (signal) => void (await this.flush(signal)),
    })
    this.hooks = {
      onPut: ({ sha256 }) => {
        if (!troubles.isOver()) this.#writeThrough.take(this.#objectsOf(sha256))
      },
      canEvict: (sha256) => committed.names(blobPaths(sha256).bin),
      onMiss: (sha256) => repairBlob(store, sha256, { treePrefix, sessionDir, signal: this.#life.signal }),
    }
  }

  get queued(): number {
    return this.#writeThrough.queued
  }

  /** Uploads one object. A failure is reported, never thrown. */
  async push(push: DeferredPush, signal: AbortSignal): Promise<PushOutcome> {
    const { store, troubles, logger } = this.#options
    // Deleted by its owner: nothing refers to it any more.
    if (!existsSync(push.localPath)) return 'gone'
    try {
      await troubles.confirm(signal)
      await store.put(push.key, push.localPath, { signal })
      troubles.succeeded()
      return 'stored'
    } catch (error) {
      if (signal.aborted || troubles.isOver()) return 'failed'
      if (!existsSync(push.localPath)) return 'gone'
      logger.warn({ err: error, key: push.key }, 'a blob could not be stored ahead of its turn')
      troubles.pushFailed(error as Error)
      await troubles.announce()
      return 'failed'
    }
  }

  /** Makes pushes durable; false when the store failed, which was reported. */
  async flush(signal: AbortSignal): Promise<boolean> {
    const { store, troubles, logger } = this.#options
    try {
      await store.flush({ signal })
      return true
    } catch (error) {
      if (signal.aborted) return false
      logger.warn({ err: error }, 'blobs that were stored ahead of their turn could not be flushed')
      troubles.flushFailed(error as Error)
      await troubles.announce()
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
    const { treePrefix, sessionDir } = this.#options
    const { bin, meta } = blobPaths(sha256)
    return [bin, meta].map((path) => ({ key: `${treePrefix}/${path}`, localPath: join(sessionDir, path) }))
  }
}
