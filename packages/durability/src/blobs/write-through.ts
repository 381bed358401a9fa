import type { Clock, TimerHandle } from '@nexus/host'
import type { DeferredPush } from '../outage/recovery.ts'

/** What became of a push; `gone`: the local file isn't there any more. */
export type PushOutcome = 'stored' | 'failed' | 'gone'

export interface WriteThroughOptions {
  clock: Clock
  /** Blobs that may wait. */
  queueLimit: number
  /** How long the queue stays empty before the store is flushed. */
  quietMs: number
  /** Uploads one object. Never rejects. */
  push(push: DeferredPush, signal: AbortSignal): Promise<PushOutcome>
  /** Never rejects. */
  flush(signal: AbortSignal): Promise<void>
  /** The store fails, or may not be written to: blobs are handed to `defer` at once. */
  holdsBack(): boolean
  /** Takes a push that has to wait for the store to come back. */
  defer(push: DeferredPush): void
}

/**
 * Uploads blobs as they are written, so that the store holds them before the turn ends. One worker, one object at a time.
 *
 * It only ever shortens the turn's snapshot: a blob that doesn't fit into the queue or fails is uploaded by the snapshot,
 * which takes whatever the store doesn't hold.
 *
 * @see docs/concepts/durability.md
 */
export class BlobWriteThrough {
  readonly #options: WriteThroughOptions
  readonly #stop = new AbortController()
  readonly #queue: DeferredPush[][] = []
  #working: Promise<void> | undefined
  #quiet: TimerHandle | undefined
  #unflushed = false
  #skipped = 0
  #closed = false

  constructor(options: WriteThroughOptions) {
    this.#options = options
  }

  /** Blobs that wait. */
  get queued(): number {
    return this.#queue.length
  }

  /** Blobs that were left to the next snapshot because the queue was full. */
  get skipped(): number {
    return this.#skipped
  }

  /** Takes a blob that is on disk: its objects in the order in which they shall be stored. Never throws. */
  take(objects: readonly DeferredPush[]): void {
    if (this.#closed) return
    if (this.#options.holdsBack()) {
      for (const each of objects) this.#options.defer(each)
      return
    }
    if (this.#queue.length >= this.#options.queueLimit) {
      this.#skipped += 1
      return
    }
    this.#queue.push([...objects])
    this.#clearQuiet()
    this.#resume()
  }

  /** Takes no more, uploads and flushes what waits; gives up, without a word, when the signal fires. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#closed = true
    this.#clearQuiet()
    const give = (): void => this.#stop.abort(signal.reason)
    if (signal.aborted) give()
    signal.addEventListener('abort', give, { once: true })
    try {
      while (this.#working !== undefined) await this.#working
      this.#clearQuiet()
      if (this.#unflushed && !this.#stop.signal.aborted) await this.#flush()
    } finally {
      signal.removeEventListener('abort', give)
      this.discard()
    }
  }

  /** Drops what waits and aborts what is on its way. */
  discard(): void {
    this.#closed = true
    this.#queue.length = 0
    this.#clearQuiet()
    this.#stop.abort(new DOMException('the run ends', 'AbortError'))
  }

  async #work(): Promise<void> {
    const { signal } = this.#stop
    for (let blob = this.#queue.shift(); blob !== undefined; blob = this.#queue.shift()) {
      for (const [index, each] of blob.entries()) {
        if (signal.aborted) return
        const outcome = this.#options.holdsBack() ? 'failed' : await this.#options.push(each, signal)
        if (outcome === 'gone') break
        if (outcome === 'stored') {
          this.#unflushed = true
          continue
        }
        if (!signal.aborted) for (const rest of blob.slice(index)) this.#options.defer(rest)
        break
      }
    }
    if (this.#unflushed && !signal.aborted && !this.#closed) this.#flushWhenQuiet()
  }

  #flushWhenQuiet(): void {
    this.#quiet = this.#options.clock.setTimeout(() => {
      this.#quiet = undefined
      this.#working ??= this.#flush().finally(() => {
        this.#working = undefined
        if (this.#queue.length > 0) this.#resume()
      })
    }, this.#options.quietMs)
    this.#quiet.unref()
  }

  #resume(): void {
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined
      if (this.#queue.length > 0) this.#resume()
    })
  }

  async #flush(): Promise<void> {
    this.#unflushed = false
    await this.#options.flush(this.#stop.signal)
  }

  #clearQuiet(): void {
    if (this.#quiet !== undefined) this.#options.clock.clearTimeout(this.#quiet)
    this.#quiet = undefined
  }
}
