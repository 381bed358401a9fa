import { closeSync } from 'node:fs'
import { fromSystemError, isNexusError, NexusError } from '@nexus/errors'
import { syncData, syncDirectory, type TreeRoot } from '@nexus/host'
import { isAbsent, openToRead } from './regular-file.ts'

/** Syncs under way together, each with an open file. */
const AT_ONCE = 16

/** Paths of a tree whose last change may still be in memory only. */
export class UnsyncedPaths {
  readonly #root: TreeRoot
  readonly #files = new Set<string>()
  readonly #directories = new Set<string>()

  constructor(root: TreeRoot) {
    this.#root = root
  }

  addFile(relPath: string): void {
    this.#files.add(relPath)
  }

  /** A name in this directory was added, removed or exchanged. */
  addDirectory(relPath: string): void {
    this.#directories.add(relPath)
  }

  /** Gives everything to the disk: contents before the names that lead to them. What fails stays due. */
  async sync(): Promise<void> {
    await this.#each(this.#files, async (path) => {
      const slot = this.#root.openSlot(path)
      try {
        const fd = openToRead(slot)
        try {
          await syncData(fd)
        } finally {
          closeSync(fd)
        }
      } finally {
        slot.close()
      }
    })
    await this.syncDirectories()
  }

  async syncDirectories(): Promise<void> {
    await this.#each(this.#directories, async (path) => {
      const directory = this.#root.openDirectory(path)
      try {
        await syncDirectory(directory.at(''))
      } finally {
        directory.close()
      }
    })
  }

  async #each(paths: Set<string>, sync: (path: string) => Promise<void>): Promise<void> {
    // A copy: what is added meanwhile waits for the next time, or one who never stops writing would keep this from ending.
    const due = Array.from(paths)
    let failure: Error | undefined
    const settle = async (path: string): Promise<void> => {
      // Removed first: what changes while this one is being synced is due again.
      paths.delete(path)
      try {
        await sync(path)
      } catch (error) {
        // What is gone needs no sync; that it is gone is its directory's business.
        if (isAbsent(error) || isReplaced(error)) return
        paths.add(path)
        failure ??= error instanceof NexusError ? error : fromSystemError(error, 'session.sync', path)
      }
    }
    // Together: the file system then commits them in one go.
    for (let at = 0; at < due.length; at += AT_ONCE) {
      await Promise.all(due.slice(at, at + AT_ONCE).map(settle))
    }
    if (failure !== undefined) throw failure
  }
}

/**
 * Whether something else than what was written lies at the path by now: a directory, a link, a FIFO, an unreadable
 * file. No snapshot can store the file that was there, and waiting doesn't bring it back.
 */
function isReplaced(error: unknown): boolean {
  return isNexusError(error, 'INVALID_ARGUMENT') || isNexusError(error, 'PERMISSION')
}
