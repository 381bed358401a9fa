import { constants } from 'node:fs'
import { fullSync, type BlobFileSystem } from '../file-system.ts'

interface PendingSync {
  running: Promise<void>
  next: Promise<void> | undefined
}

/**
 * Makes renames into a directory durable, sharing one fsync between all callers that asked before it started. A caller
 * that asks while one runs waits for the next: the running one may have missed its rename.
 */
export class DirectorySync {
  readonly #fs: BlobFileSystem
  readonly #pending = new Map<string, PendingSync>()

  constructor(fs: BlobFileSystem) {
    this.#fs = fs
  }

  /** Resolves when every entry that was in `dir` at the time of the call is durable. */
  sync(dir: string): Promise<void> {
    const pending = this.#pending.get(dir)
    if (pending === undefined) {
      const entry: PendingSync = { running: Promise.resolve(), next: undefined }
      this.#pending.set(dir, entry)
      entry.running = this.#run(dir, entry)
      return entry.running
    }
    pending.next ??= pending.running.then(
      () => this.#again(dir, pending),
      () => this.#again(dir, pending),
    )
    return pending.next
  }

  #again(dir: string, entry: PendingSync): Promise<void> {
    entry.next = undefined
    entry.running = this.#run(dir, entry)
    return entry.running
  }

  async #run(dir: string, entry: PendingSync): Promise<void> {
    try {
      const fd = this.#fs.openSync(dir, constants.O_RDONLY | constants.O_DIRECTORY)
      try {
        await fullSync(this.#fs, fd)
      } finally {
        this.#fs.closeSync(fd)
      }
    } finally {
      if (entry.next === undefined && this.#pending.get(dir) === entry) this.#pending.delete(dir)
    }
  }
}
