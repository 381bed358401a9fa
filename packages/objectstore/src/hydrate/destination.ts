import { lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs'
import { join, sep } from 'node:path'
import { NexusError, systemCode } from '@nexus/errors'
import { quoteKey } from '../errors.ts'
import { validateKey } from '../keys.ts'

/**
 * The directory a hydration writes below. It makes parent directories as they are needed and never lets a symbolic link
 * lead a write outside. Looked-up directories are remembered, so one instance serves one hydration.
 *
 * The calls are synchronous: each is a few microseconds on a local disk, where a promise per directory would cost more
 * than the work.
 */
export class Destination {
  readonly directory: string
  readonly #root: string
  readonly #known = new Set<string>()

  /** Creates the directory when it is missing. */
  constructor(directory: string) {
    mkdirSync(directory, { recursive: true })
    this.directory = directory
    this.#root = realpathSync(directory)
  }

  /**
   * The absolute path for a `/`-separated relative path, its parents created. What stands at the path itself is not looked
   * at: write to a temporary name beside it and rename, which replaces a link instead of following it.
   *
   * @throws InvalidKeyError for a path that breaks the key rules; NexusError `PRECONDITION` when a parent is a file, or a
   *   link that leads out of the destination
   */
  resolve(relPath: string): string {
    validateKey(relPath)
    const end = relPath.lastIndexOf('/')
    if (end > 0) this.#ensureDirectory(relPath.slice(0, end), relPath)
    return join(this.directory, relPath)
  }

  #ensureDirectory(relDir: string, relPath: string): void {
    if (this.#known.has(relDir)) return
    const end = relDir.lastIndexOf('/')
    if (end > 0) this.#ensureDirectory(relDir.slice(0, end), relPath)
    const path = join(this.directory, relDir)
    try {
      mkdirSync(path)
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error
      this.#checkExisting(path, relPath)
    }
    this.#known.add(relDir)
  }

  #checkExisting(path: string, relPath: string): void {
    if (lstatSync(path).isDirectory()) return
    const target = statSync(path, { throwIfNoEntry: false })
    if (target?.isDirectory() !== true) throw blocked(relPath, path, 'is not a directory')
    const real = realpathSync(path)
    if (real !== this.#root && !real.startsWith(this.#root + sep)) {
      throw blocked(relPath, path, 'is a symbolic link that leads outside the destination')
    }
  }
}

/**
 * The path to write `relPath` to below `destDir`, parents created, never through a link that leads outside. For one file;
 * for many use one {@link Destination}.
 */
export function safeDestination(destDir: string, relPath: string): string {
  return new Destination(destDir).resolve(relPath)
}

function blocked(relPath: string, path: string, problem: string): NexusError {
  const message = `${quoteKey(relPath)} can't be written: ${path} ${problem}`
  return new NexusError('PRECONDITION', message, { op: 'objectstore.hydrate', key: relPath })
}
