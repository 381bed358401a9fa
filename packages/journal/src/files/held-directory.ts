import nodeFsModule from 'node:fs'
import { NexusError, systemCode } from '@nexus/errors'
import { nodeFs, notPlain, openPlain, type JournalFs } from './journal-fs.ts'

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = nodeFsModule.constants
const OPEN_DIRECTORY = O_RDONLY | (O_DIRECTORY ?? 0) | (O_NOFOLLOW ?? 0)

// Linux resolves /proc/self/fd/<n>/<name> from the open directory itself: what openat(2) would do, which Node lacks.
const FD_ROOT = nodeFsModule.existsSync('/proc/self/fd') ? '/proc/self/fd' : undefined

/**
 * A journal directory, opened without following a link at its own name, and file functions that reach what is below it
 * through that descriptor: swapping the directory, or one inside it, for a link at any moment leads nowhere. Without
 * `/proc` (not Linux) the directory is looked at right before each call instead, and a swap in between is not noticed.
 *
 * Callers go on using ordinary paths; those that lie elsewhere are passed through.
 */
export class HeldDirectory {
  readonly fs: JournalFs
  readonly #dir: string
  readonly #fd: number

  /** @throws the system error when there is no such directory; `LOCAL_IO` when it is a link or no directory */
  constructor(dir: string) {
    this.#dir = dir
    this.#fd = openDirectory(dir, dir)
    this.fs = this.#functions()
  }

  #functions(): JournalFs {
    const { renameSync, linkSync, readdirSync, mkdirSync, unlinkSync, rmSync } = nodeFs
    const below =
      <A extends unknown[], R>(call: (path: string, ...rest: A) => R) =>
      (path: string, ...rest: A): R =>
        this.#at(path, (real) => call(real, ...rest))
    const both =
      (call: (from: string, to: string) => void) =>
      (from: string, to: string): void =>
        this.#at(from, (realFrom) => this.#at(to, (realTo) => call(realFrom, realTo)))
    const functions = {
      openSync: (path: string, flags: string, mode?: number) =>
        this.#at(path, (real) => openPlain(real, flags, mode, path)),
      readdirSync: below(readdirSync as (path: string) => string[]),
      mkdirSync: below(mkdirSync as (path: string) => string | undefined),
      unlinkSync: below(unlinkSync as (path: string) => void),
      rmSync: below(rmSync as (path: string) => void),
      renameSync: both(renameSync),
      linkSync: both(linkSync),
    }
    return { ...nodeFs, ...(functions as unknown as Partial<JournalFs>) }
  }

  #at<T>(path: string, call: (real: string) => T): T {
    if (path !== this.#dir && !path.startsWith(`${this.#dir}/`)) return call(path)
    if (FD_ROOT === undefined) {
      this.assertInPlace('journal.open')
      return call(path)
    }
    const parts = path.slice(this.#dir.length + 1).split('/')
    const name = parts.pop() || '.'
    let fd = this.#fd
    let real = path
    try {
      for (const part of parts) {
        const next = openDirectory(`${FD_ROOT}/${fd}/${part}`, path)
        if (fd !== this.#fd) nodeFsModule.closeSync(fd)
        fd = next
      }
      real = `${FD_ROOT}/${fd}/${name}`
      return call(real)
    } catch (error) {
      throw renamed(error, real, path)
    } finally {
      if (fd !== this.#fd) nodeFsModule.closeSync(fd)
    }
  }

  /** Throws `LOCAL_IO` when the path leads to another directory by now: what is written no longer belongs to the session. */
  assertInPlace(op: string): void {
    const held = nodeFsModule.fstatSync(this.#fd, { bigint: true })
    const there = nodeFsModule.lstatSync(this.#dir, { bigint: true, throwIfNoEntry: false })
    if (there?.ino === held.ino && there.dev === held.dev) return
    const message = `${this.#dir} was replaced or removed while the journal was open: put it back, or open the session anew`
    throw new NexusError('LOCAL_IO', message, { op, key: this.#dir })
  }

  close(): void {
    nodeFsModule.closeSync(this.#fd)
  }
}

/** Holds a journal directory for one piece of work. With `fs` given (tests), or without a directory, there is nothing to hold. */
export function holdDirectory(dir: string, fs: JournalFs | undefined): Pick<HeldDirectory, 'fs' | 'close'> {
  if (fs) return { fs, close: () => undefined }
  try {
    return new HeldDirectory(dir)
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error
    return { fs: nodeFs, close: () => undefined }
  }
}

function openDirectory(real: string, shown: string): number {
  try {
    return nodeFsModule.openSync(real, OPEN_DIRECTORY)
  } catch (error) {
    const code = systemCode(error)
    throw code === 'ELOOP' || code === 'ENOTDIR' ? notPlain(shown, error) : error
  }
}

/** The same error with the path that the caller knows. */
function renamed(error: unknown, real: string, shown: string): unknown {
  if (error instanceof Error && !(error instanceof NexusError)) error.message = error.message.replaceAll(real, shown)
  return error
}
