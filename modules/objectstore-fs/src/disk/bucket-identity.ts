import { configError, NexusError } from '@nexus/objectstore'
import { errorCode, type SyncFileSystem } from './file-system.ts'

/**
 * Watches that the bucket directory stays the one it was at open. An unmounted bucket is an empty directory, or none: read
 * as such it would say that no session was ever stored, and written to it would fill the disk beneath.
 */
export class BucketIdentity {
  readonly #path: string
  readonly #fs: SyncFileSystem
  #known: { dev: number; ino: number } | undefined

  constructor(path: string, fs: SyncFileSystem) {
    this.#path = path
    this.#fs = fs
  }

  /**
   * Looks at the directory for the first time.
   *
   * @throws NexusError `INVALID_ARGUMENT` naming the key when it is missing, no directory, or no mount point although it
   *   must be one
   */
  open(requireMount: boolean): void {
    let stat
    try {
      stat = this.#fs.statSync(this.#path)
    } catch (error) {
      const code = errorCode(error)
      if (code === 'ENOENT' || code === 'ENOTDIR') {
        throw configError('bucket', `names ${this.#path}, which does not exist: make the directory or mount it`, error)
      }
      throw error
    }
    if (!stat.isDirectory()) throw configError('bucket', `names ${this.#path}, which is not a directory`)
    if (requireMount && this.#fs.statSync(`${this.#path}/..`).dev === stat.dev) {
      throw configError('bucket', `names ${this.#path}, which is not a mount point, and options.require_mount is set`)
    }
    this.#known = { dev: stat.dev, ino: stat.ino }
  }

  /** @throws NexusError `UNAVAILABLE` when another directory, or none, is at the bucket's path now */
  check(): void {
    let stat
    try {
      stat = this.#fs.statSync(this.#path)
    } catch (error) {
      throw this.#gone('can not be reached', error)
    }
    if (!stat.isDirectory()) throw this.#gone('is not a directory any more')
    this.#known ??= { dev: stat.dev, ino: stat.ino }
    // A remount may change the one or the other, a restored backup too; both differ only when it is something else.
    if (stat.dev !== this.#known.dev && stat.ino !== this.#known.ino) {
      throw this.#gone('is not the directory that was opened: was it unmounted?')
    }
  }

  #gone(problem: string, cause?: unknown): NexusError {
    const message = `bucket ${this.#path} ${problem}`
    return new NexusError('UNAVAILABLE', message, { op: 'objectstore.bucket', key: this.#path, cause })
  }
}
