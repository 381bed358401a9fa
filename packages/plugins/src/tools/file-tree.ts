import { lstat, readdir } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { NexusError, type PluginSession } from '@nexus/engine'

const FILES = 'files'

/** A file below `files/`. */
export interface FoundFile {
  /** Relative to `files/`, with `/`. */
  path: string
  sizeBytes: number
}

/** The files that a model works with: those below the session's `files/`. Paths are relative to it and can't leave it. */
export class FileTree {
  readonly #session: PluginSession
  readonly #maxFileBytes: number

  constructor(session: PluginSession, maxFileBytes: number) {
    this.#session = session
    this.#maxFileBytes = maxFileBytes
  }

  /** @throws `NOT_FOUND`; `UNSUPPORTED` for a file that is too large or no text */
  async read(path: string): Promise<string> {
    const bytes = await this.#session.readFile(inFiles(path))
    if (bytes.byteLength > this.#maxFileBytes) throw unreadable(path, `has ${bytes.byteLength} bytes`)
    if (bytes.includes(0)) throw unreadable(path, 'is no text')
    return bytes.toString('utf8')
  }

  /** What {@link read} gives; undefined for a file that it refuses. */
  async searchable(path: string): Promise<string | undefined> {
    return await this.read(path).catch(() => undefined)
  }

  write(path: string, text: string): Promise<void> {
    return this.#session.writeFile(inFiles(path), text)
  }

  append(path: string, text: string): Promise<void> {
    return this.#session.appendFile(inFiles(path), text)
  }

  /** Every regular file below a directory, sorted by path. Links are not followed. */
  async list(directory: string): Promise<FoundFile[]> {
    const root = this.#session.filesDir
    const within = directory === '' || directory === '.' ? '' : `${directory.replace(/\/+$/, '')}/`
    if (!(await lstat(root).catch(() => undefined))?.isDirectory()) return []
    const entries = await readdir(root, { recursive: true, withFileTypes: true })
    const paths = entries
      .filter((entry) => entry.isFile())
      .map((entry) => relative(root, join(entry.parentPath, entry.name)).replaceAll(sep, '/'))
      .filter((path) => path.startsWith(within))
      .toSorted()
    const found = await Promise.all(paths.map(async (path) => ({ path, ...(await sizeOf(join(root, path))) })))
    return found.filter((file): file is FoundFile => 'sizeBytes' in file)
  }
}

/** The workspace refuses what leaves the session; that an absolute path is none of ours would otherwise pass for a relative one. */
function inFiles(path: string): string {
  if (path.startsWith('/')) {
    throw new NexusError(
      'INVALID_ARGUMENT',
      `${path} is an absolute path: give one relative to the files of the session`,
      {
        op: 'tool.files',
        key: path,
      },
    )
  }
  return `${FILES}/${path}`
}

async function sizeOf(path: string): Promise<{ sizeBytes?: number }> {
  // Gone since the directory was read.
  const found = await lstat(path).catch(() => undefined)
  return found === undefined ? {} : { sizeBytes: found.size }
}

function unreadable(path: string, why: string): NexusError {
  return new NexusError('UNSUPPORTED', `${path} ${why}: it can't be read as text here`, { op: 'tool.files', key: path })
}
