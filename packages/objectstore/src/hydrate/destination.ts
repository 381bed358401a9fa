import {
  closeSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'
import { NexusError, systemCode } from '@nexus/errors'
import { engineTempName } from '@nexus/host'
import { quoteKey } from '../errors.ts'
import { validateKey } from '../keys.ts'

const OPEN_DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY
/** Directories held open at most: the files of a listing mostly come directory by directory. */
const MOST_OPEN = 16

// Linux resolves <fds>/<n>/<name> from the open directory itself: what openat(2) would do, which Node lacks. By number and
// not as "self", so that a program which a driver starts finds the same place.
const FDS = ['/proc/self', `/proc/${process.pid}`].every((path) => existsSync(`${path}/fd`))
  ? `/proc/${readlinkSync('/proc/self') === String(process.pid) ? process.pid : 'self'}/fd`
  : undefined

/** An open directory, with a path for system calls that reaches into this very directory. */
interface Directory {
  fd: number
  at(name: string): string
}

/**
 * The directory a hydration writes below. Files come into being in a staging directory and are renamed into place. Both ends
 * are reached through open descriptors, component by component, and no component below the destination may be a link: what
 * is swapped for one, at whatever moment, leads no write outside. Without `/proc` (not Linux) the check and the use are two
 * system calls.
 *
 * The calls are synchronous: each is a few microseconds on a local disk, where a promise per directory would cost more
 * than the work. Close it in the end.
 */
export class Destination {
  readonly directory: string
  readonly #root: Directory
  readonly #open = new Map<string, Directory>()
  #staging: { name: string; directory: Directory } | undefined

  /** Creates the directory when it is missing. Its own path may go through links: the caller chose it. */
  constructor(directory: string) {
    mkdirSync(directory, { recursive: true })
    this.directory = directory
    this.#root = openDirectory(directory, OPEN_DIRECTORY)
  }

  /** A path for a new file, in the staging directory. */
  tempPath(): string {
    if (this.#staging === undefined) {
      const name = engineTempName()
      const path = this.#root.at(name)
      mkdirSync(path, 0o700)
      this.#staging = { name, directory: openDirectory(path, OPEN_DIRECTORY | constants.O_NOFOLLOW) }
    }
    return this.#staging.directory.at(engineTempName())
  }

  /**
   * Renames a staged file to a `/`-separated path, its parents created. A file or a link that is there is replaced.
   *
   * @throws InvalidKeyError for a path that breaks the key rules; NexusError `PRECONDITION` when a parent is a file or a link
   */
  place(tempPath: string, relPath: string): void {
    validateKey(relPath)
    const end = relPath.lastIndexOf('/')
    const parent = end < 0 ? this.#root : this.#directory(relPath.slice(0, end), relPath)
    renameSync(tempPath, parent.at(relPath.slice(end + 1)))
  }

  /** The error with the path that a person knows, where it names one through a descriptor. */
  explain(error: unknown, relPath: string): unknown {
    const { path, message } = error as { path?: unknown; message?: unknown }
    if (FDS === undefined || !(error instanceof Error) || typeof path !== 'string' || !path.startsWith(FDS))
      return error
    const known = join(this.directory, relPath)
    return Object.assign(error, { path: known, message: String(message).replaceAll(path, known) })
  }

  /** Removes the staging directory and closes what is open. */
  close(): void {
    try {
      if (this.#staging !== undefined) {
        const { name, directory } = this.#staging
        closeSync(directory.fd)
        rmSync(this.#root.at(name), { recursive: true, force: true })
      }
    } finally {
      for (const { fd } of this.#open.values()) closeSync(fd)
      closeSync(this.#root.fd)
    }
  }

  #directory(relDir: string, relPath: string): Directory {
    const known = this.#open.get(relDir)
    if (known !== undefined) return known
    const end = relDir.lastIndexOf('/')
    const parent = end < 0 ? this.#root : this.#directory(relDir.slice(0, end), relPath)
    const path = parent.at(relDir.slice(end + 1))
    try {
      mkdirSync(path)
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error
    }
    const opened = this.#openChecked(path, relDir, relPath)
    this.#open.set(relDir, opened)
    const [oldest] = this.#open
    if (this.#open.size > MOST_OPEN && oldest !== undefined) {
      closeSync(oldest[1].fd)
      this.#open.delete(oldest[0])
    }
    return opened
  }

  #openChecked(path: string, relDir: string, relPath: string): Directory {
    try {
      return openDirectory(path, OPEN_DIRECTORY | constants.O_NOFOLLOW)
    } catch (error) {
      const code = systemCode(error)
      if (code !== 'ENOTDIR' && code !== 'ELOOP') throw error
      const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
      const what = isLink ? 'a symbolic link, which no write goes through' : 'not a directory'
      const message = `${quoteKey(relPath)} can't be written: ${join(this.directory, relDir)} is ${what}`
      throw new NexusError('PRECONDITION', message, { op: 'objectstore.hydrate', key: relPath, cause: error })
    }
  }
}

function openDirectory(path: string, flags: number): Directory {
  const fd = openSync(path, flags)
  const base = FDS === undefined ? path : `${FDS}/${fd}`
  return { fd, at: (name) => `${base}/${name}` }
}
