import { DIRECTORY_FLAGS, type SyncFileSystem } from './file-system.ts'

interface Group {
  /** What each directory's fsync failed with, undefined while it has not. */
  directories: Map<string, unknown>
  done: Promise<void>
}

/**
 * Makes changes of directories durable, one fsync per directory for all calls that came in together: the group is closed
 * when the worker has taken in every message that was waiting.
 */
export class DirectoryGroup {
  readonly #fs: SyncFileSystem
  readonly #enabled: boolean
  /** Directories whose own entries are known to be durable, so that only new ones cost an fsync of their parents. */
  readonly #durable = new Set<string>()
  #open: Group | undefined

  constructor(fs: SyncFileSystem, enabled: boolean) {
    this.#fs = fs
    this.#enabled = enabled
  }

  /** Whether the directory's entry in its parent has been synced by this worker. */
  isDurable(directory: string): boolean {
    return !this.#enabled || this.#durable.has(directory)
  }

  /** The directory was not there any more: a new one in its place has an entry of its own. */
  forget(directory: string): void {
    this.#durable.delete(directory)
  }

  /**
   * Resolves when all entries of the directories are durable.
   *
   * @param entered directories whose own entries become durable by that
   */
  async sync(directories: Iterable<string>, entered: readonly string[] = []): Promise<void> {
    if (!this.#enabled) return
    this.#open ??= this.#newGroup()
    const group = this.#open
    const own = [...directories]
    for (const directory of own) group.directories.set(directory, undefined)
    await group.done
    for (const directory of own) {
      const failure = group.directories.get(directory)
      if (failure !== undefined) throw failure
    }
    // A bound on memory, not a cache policy: forgetting costs one fsync each.
    if (this.#durable.size > 50_000) this.#durable.clear()
    for (const directory of entered) this.#durable.add(directory)
  }

  #newGroup(): Group {
    const directories = new Map<string, unknown>()
    const done = new Promise<void>((resolve) => {
      setImmediate(() => {
        this.#open = undefined
        for (const directory of directories.keys()) {
          try {
            this.syncNow(directory)
          } catch (error) {
            directories.set(directory, error)
          }
        }
        resolve()
      })
    })
    return { directories, done }
  }

  /** For the one place where a later step must not be taken before. */
  syncNow(directory: string): void {
    if (!this.#enabled) return
    const fd = this.#fs.openSync(directory, DIRECTORY_FLAGS)
    try {
      this.#fs.fsyncSync(fd)
    } finally {
      this.#fs.closeSync(fd)
    }
  }

  /** Resolves when everything asked for so far is done. */
  async settled(): Promise<void> {
    await this.#open?.done
  }
}
