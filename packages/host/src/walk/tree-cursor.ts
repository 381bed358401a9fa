import nodeFs, { type BigIntStats, constants } from 'node:fs'
import { fromSystemError } from '@nexus/errors'
import { descriptorPath } from './descriptor-path.ts'
import { openRegular } from '../files/file-digest.ts'
import { treeParent } from './tree-root.ts'

interface OpenDirectory {
  /** Relative to the root, `''` for the root itself. */
  path: string
  fd: number
  /** For system calls: reaches into this very directory. */
  base: string
}

/** The part of `node:fs` a cursor uses on directories. */
export type CursorFs = Pick<typeof nodeFs, 'openSync' | 'closeSync' | 'fstatSync' | 'lstatSync'>

const OPEN_DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * Reaches the files of a tree without ever following a link: each directory is opened from the one above it, which is
 * held open meanwhile. Whatever is swapped for a link at whatever moment, what is reached lies in the tree.
 *
 * The directories from the root to the one last asked for stay open, so that a walk opens each once. Calls throw the
 * system error: `ENOTDIR` or `ELOOP` where a directory was replaced.
 *
 * Without `/proc` (not Linux) names are resolved by the kernel from the root again, and {@link openFile} looks afterwards
 * whether that went through the directories that are held.
 */
export class TreeCursor {
  /** Absolute. */
  readonly root: string
  readonly #fs: CursorFs
  readonly #pathOf: typeof descriptorPath
  readonly #open: OpenDirectory[]

  /**
   * @param root absolute; a link there isn't followed either
   * @throws NexusError `NOT_FOUND` when there is no such directory
   */
  constructor(root: string, options: { fs?: CursorFs; descriptorPath?: typeof descriptorPath } = {}) {
    this.#fs = options.fs ?? nodeFs
    this.#pathOf = options.descriptorPath ?? descriptorPath
    this.root = root
    try {
      this.#open = [this.#enter('', root)]
    } catch (error) {
      throw fromSystemError(error, 'session.open', root)
    }
  }

  /** A path for system calls that leads to a directory (`''` is the root). Valid until the next call. */
  directory(path: string): string {
    return this.#reach(path).base
  }

  /** A path for system calls on a name, whose last component is not resolved. Valid until the next call. */
  place(path: string): string {
    return `${this.directory(treeParent(path))}/${path.slice(path.lastIndexOf('/') + 1)}`
  }

  /** What a directory is, as it is held. */
  statDirectory(path: string): BigIntStats {
    return this.#fs.fstatSync(this.#reach(path).fd, { bigint: true })
  }

  /** What is at a path; undefined when there is nothing. */
  lstat(path: string): BigIntStats | undefined {
    return this.#fs.lstatSync(this.place(path), { bigint: true, throwIfNoEntry: false })
  }

  /**
   * Opens a regular file for reading; the caller closes it.
   *
   * @throws the system error; `ENOTREG` for anything but a regular file
   */
  openFile(path: string): number {
    const { fd } = openRegular(this.place(path))
    if (this.#pathOf(fd) !== undefined || this.#isReached()) return fd
    this.#fs.closeSync(fd)
    throw Object.assign(new Error(`a directory above ${path} was replaced`), { code: 'ENOTDIR', path })
  }

  /** Forgets where it was: the next call looks at every directory anew. */
  reset(): void {
    this.#leaveUntil(() => false)
  }

  close(): void {
    for (const { fd } of this.#open.splice(0)) this.#fs.closeSync(fd)
  }

  #reach(path: string): OpenDirectory {
    this.#leaveUntil((at) => at === path || path.startsWith(`${at}/`))
    let last = this.#open.at(-1) as OpenDirectory
    while (last.path !== path) {
      const from = last.path === '' ? 0 : last.path.length + 1
      const slash = path.indexOf('/', from)
      const next = slash === -1 ? path : path.slice(0, slash)
      last = this.#enter(next, `${last.base}/${next.slice(from)}`)
      this.#open.push(last)
    }
    return last
  }

  #enter(path: string, systemPath: string): OpenDirectory {
    const fd = this.#fs.openSync(systemPath, OPEN_DIRECTORY)
    return { path, fd, base: this.#pathOf(fd) ?? systemPath }
  }

  /** The root stays. */
  #leaveUntil(isAbove: (path: string) => boolean): void {
    for (let last = this.#open.at(-1); last !== undefined && last.path !== ''; last = this.#open.at(-1)) {
      if (isAbove(last.path)) return
      this.#open.pop()
      this.#fs.closeSync(last.fd)
    }
  }

  #isReached(): boolean {
    return this.#open.every(({ fd, base }) => {
      const [held, named] = [this.#fs.fstatSync(fd), this.#fs.lstatSync(base, { throwIfNoEntry: false })]
      return named !== undefined && held.ino === named.ino && held.dev === named.dev
    })
  }
}
