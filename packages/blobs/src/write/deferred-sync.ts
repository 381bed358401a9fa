import { dataSync, READ_FLAGS, type BlobFileSystem } from '../file-system.ts'

/** Files that may wait before the work starts even though puts go on. */
const BACKLOG_LIMIT = 1024

/**
 * Syncs small files after the fact, in the background and one at a time so that the thread pool stays free: once no
 * put is under way, or when too many have piled up.
 */
export class DeferredSync {
  readonly #fs: BlobFileSystem
  readonly #onSynced: () => void
  readonly #onError: (error: unknown, path: string) => void
  readonly #waiting = new Set<string>()
  #running: Promise<void> | undefined

  constructor(fs: BlobFileSystem, onSynced: () => void, onError: (error: unknown, path: string) => void) {
    this.#fs = fs
    this.#onSynced = onSynced
    this.#onError = onError
  }

  add(path: string): void {
    this.#waiting.add(path)
    if (this.#waiting.size > BACKLOG_LIMIT) void this.drain()
  }

  /** Starts the work, and resolves when every file added so far is durable or was given up with a report. */
  drain(): Promise<void> {
    if (this.#running !== undefined) return this.#running
    if (this.#waiting.size === 0) return Promise.resolve()
    this.#running = this.#run().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  async #run(): Promise<void> {
    for (const path of this.#waiting) {
      this.#waiting.delete(path)
      try {
        const fd = this.#fs.openSync(path, READ_FLAGS)
        try {
          await dataSync(this.#fs, fd)
        } finally {
          this.#fs.closeSync(fd)
        }
        this.#onSynced()
      } catch (error) {
        // Evicted or deleted meanwhile: nothing is left to keep.
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') this.#onError(error, path)
      }
    }
  }
}
