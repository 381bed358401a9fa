import { closeSync, constants, lstatSync, mkdirSync, openSync, readlinkSync, realpathSync, type Stats } from 'node:fs'
import { isAbsolute, relative, resolve } from 'node:path'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import { descriptorPath } from './descriptor-path.ts'
import { PathEscapeError } from './path-escape-error.ts'

const LONE_SURROGATE = /\p{Surrogate}/u
const MAX_LINKS = 16
const DIRECTORY_MODE = 0o700
const OPEN_DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY

/**
 * Checks a session-relative path by its text alone and returns it in canonical form, without `.` or empty segments.
 *
 * `..` is refused even where it would stay inside: behind a link it means another place than it reads. A lone surrogate is
 * refused because the file system would store U+FFFD in its stead, and two such names would be one file.
 *
 * @param kind a `directory` may be the session itself (`''` or `.`) and may end in `/`
 * @throws PathEscapeError
 */
export function parseTreePath(path: string, kind: 'file' | 'directory' = 'file'): string {
  if (typeof path !== 'string') throw new PathEscapeError(String(path), 'is not a string')
  if (path === '' && kind === 'file') throw new PathEscapeError(path, 'is empty')
  if (path.includes('\0')) throw new PathEscapeError(path, 'holds a NUL')
  if (path.includes('\\')) throw new PathEscapeError(path, 'holds a backslash')
  if (isAbsolute(path)) throw new PathEscapeError(path, 'is absolute')
  if (LONE_SURROGATE.test(path)) throw new PathEscapeError(path, 'holds half of a surrogate pair')
  if (kind === 'file' && path.endsWith('/')) throw new PathEscapeError(path, 'names a directory')
  const segments = path.split('/').filter((segment) => segment !== '' && segment !== '.')
  if (segments.includes('..')) throw new PathEscapeError(path, 'holds ".."')
  if (segments.length === 0 && kind === 'file') throw new PathEscapeError(path, 'names the session itself')
  return segments.join('/')
}

/** A directory inside the tree, held open so that swapping one of its ancestors for a link can't move it. */
export interface TreeDirectory {
  readonly fd: number
  /** Session-relative, every link resolved; `''` is the session itself. */
  readonly relPath: string
  /** A path for system calls that reaches `name` inside this very directory. `''` is the directory. */
  at(name: string): string
  close(): void
}

/** Where a file of the tree is, or would be. Close it after use. */
export interface TreeSlot {
  readonly parent: TreeDirectory
  readonly name: string
  /** Session-relative, every link resolved. */
  readonly relPath: string
  /** Path for system calls on the file; its last component is no link when this was made. */
  readonly path: string
  /** What is there, undefined for nothing. */
  readonly stats: Stats | undefined
  close(): void
}

/** How directories of the tree are opened. */
export interface OpenDirectoryOptions {
  /** Make what is missing, 0700 less the umask. Default: a missing directory is `NOT_FOUND`. */
  create?: boolean
  /** Told the session-relative path of each directory that was made. */
  onCreate?: (relPath: string) => void
}

/** How {@link TreeRoot.openSlot} finds a file. */
export interface OpenSlotOptions extends OpenDirectoryOptions {
  /** False: a link in the last component is what the slot names. Default true. */
  followLast?: boolean
}

/**
 * The root of a session tree, the one place that turns session-relative paths into paths for system calls.
 *
 * Links inside the tree are followed; what they lead to is checked on the *opened* directory, not before opening it, so a
 * component that is swapped for a link in between is noticed. Without `/proc` (not Linux) the check and the use are two
 * system calls, and a swap between them is not noticed.
 */
export class TreeRoot {
  /** Absolute, every link resolved. */
  readonly dir: string
  readonly #givenDir: string

  /** @throws NexusError `NOT_FOUND` when `dir` doesn't exist */
  constructor(dir: string) {
    this.#givenDir = resolve(dir)
    try {
      this.dir = realpathSync.native(dir)
    } catch (error) {
      throw fromSystemError(error, 'session.open', dir)
    }
  }

  /** The canonical session-relative form of an absolute path by its text alone, or undefined when it lies elsewhere. */
  relativize(absPath: string): string | undefined {
    if (typeof absPath !== 'string' || !isAbsolute(absPath) || absPath.includes('\0')) return undefined
    for (const root of [this.#givenDir, this.dir]) {
      const path = relative(root, absPath)
      if (path !== '' && path !== '..' && !path.startsWith('../') && !isAbsolute(path)) return path
    }
    return undefined
  }

  /**
   * Opens a directory.
   *
   * @param relPath canonical, as {@link parseTreePath} returns it
   * @throws PathEscapeError when a link leads out of the tree
   * @throws NexusError `NOT_FOUND`, `PERMISSION` or `LOCAL_IO`
   */
  openDirectory(relPath: string, options: OpenDirectoryOptions = {}): TreeDirectory {
    const path = relPath === '' ? this.dir : `${this.dir}/${relPath}`
    let fd: number
    try {
      fd = openSync(path, OPEN_DIRECTORY)
    } catch (error) {
      if (systemCode(error) === 'ENOENT' && options.create === true && relPath !== '') {
        return this.#createDirectory(relPath, options)
      }
      this.#refuseEscape(relPath)
      throw fromSystemError(error, 'session.path', relPath)
    }
    return this.#verified(fd, path, relPath)
  }

  /** What can't be opened may still lead out of the tree; then it isn't told whether anything is there. */
  #refuseEscape(relPath: string): void {
    if (relPath === '') return
    try {
      this.#findSlot(relPath, {}).close()
    } catch (error) {
      if (error instanceof PathEscapeError) throw namedAfter(relPath, error)
    }
  }

  #createDirectory(relPath: string, options: OpenDirectoryOptions): TreeDirectory {
    const name = relPath.slice(relPath.lastIndexOf('/') + 1)
    const parent = this.openDirectory(treeParent(relPath), { ...options, create: true })
    try {
      const path = parent.at(name)
      try {
        mkdirSync(path, DIRECTORY_MODE)
        options.onCreate?.(parent.relPath === '' ? name : `${parent.relPath}/${name}`)
      } catch (error) {
        if (systemCode(error) !== 'EEXIST') throw fromSystemError(error, 'session.mkdir', relPath)
        if (lstatSync(path).isSymbolicLink())
          throw new PathEscapeError(relPath, 'goes through a link that leads nowhere')
      }
      try {
        return this.#verified(openSync(path, OPEN_DIRECTORY | constants.O_NOFOLLOW), path, relPath)
      } catch (error) {
        throw error instanceof NexusError ? error : fromSystemError(error, 'session.mkdir', relPath)
      }
    } finally {
      parent.close()
    }
  }

  #verified(fd: number, path: string, given: string): TreeDirectory {
    try {
      const held = descriptorPath(fd)
      const real = held === undefined ? realpathSync.native(path) : readlinkSync(held)
      if (!this.#holds(real)) throw new PathEscapeError(given, 'goes through a link that leads out of the session')
      const base = held ?? real
      return {
        fd,
        relPath: real === this.dir ? '' : real.slice(this.dir.length + 1),
        at: (name) => (name === '' ? base : `${base}/${name}`),
        close: () => closeSync(fd),
      }
    } catch (error) {
      closeSync(fd)
      throw error instanceof NexusError ? error : fromSystemError(error, 'session.path', given)
    }
  }

  #holds(real: string): boolean {
    return real === this.dir || real.startsWith(`${this.dir}/`)
  }

  /**
   * Finds the place of a file. A link in the last component is followed as long as it stays inside, also to a file that
   * doesn't exist yet.
   *
   * @param relPath canonical, as {@link parseTreePath} returns it
   * @throws PathEscapeError when a link at any component leads out of the tree
   */
  openSlot(relPath: string, options: OpenSlotOptions = {}): TreeSlot {
    try {
      return this.#findSlot(relPath, options)
    } catch (error) {
      throw namedAfter(relPath, error)
    }
  }

  #findSlot(relPath: string, options: OpenSlotOptions): TreeSlot {
    let path = relPath
    for (let links = 0; links <= MAX_LINKS; links++) {
      const name = path.slice(path.lastIndexOf('/') + 1)
      const parent = this.openDirectory(treeParent(path), options)
      try {
        const target = parent.at(name)
        const stats = lstatSync(target, { throwIfNoEntry: false })
        if (stats === undefined || !stats.isSymbolicLink() || options.followLast === false) {
          const real = parent.relPath === '' ? name : `${parent.relPath}/${name}`
          return { parent, name, relPath: real, path: target, stats, close: () => parent.close() }
        }
        path = this.#follow(parent, name, relPath)
        parent.close()
      } catch (error) {
        parent.close()
        throw error
      }
    }
    throw new PathEscapeError(relPath, 'goes through too many links')
  }

  /** Where the link `name` leads, session-relative; the caller opens it anew, which checks it anew. */
  #follow(parent: TreeDirectory, name: string, given: string): string {
    const link = parent.at(name)
    let real: string
    try {
      real = realpathSync.native(link)
    } catch (error) {
      if (systemCode(error) === 'ELOOP') throw new PathEscapeError(given, 'goes through a link to itself')
      if (systemCode(error) !== 'ENOENT') throw error
      // It leads to nothing yet: one step, and the next round looks at what is there.
      real = resolve(this.dir, parent.relPath, readlinkSync(link))
    }
    if (real === this.dir || !this.#holds(real)) {
      throw new PathEscapeError(given, 'goes through a link that leads out of the session')
    }
    return real.slice(this.dir.length + 1)
  }
}

/** The directory of a canonical path, `''` for what lies in the session itself. */
export function treeParent(relPath: string): string {
  const slash = relPath.lastIndexOf('/')
  return slash < 0 ? '' : relPath.slice(0, slash)
}

/** The same error, named after the path that the caller knows rather than one of its directories. */
function namedAfter(relPath: string, error: unknown): NexusError {
  if (error instanceof PathEscapeError)
    return error.path === relPath ? error : new PathEscapeError(relPath, error.reason)
  return fromSystemError(error instanceof NexusError ? error.cause : error, 'session.path', relPath)
}
