import { closeSync } from 'node:fs'
import { fromSystemError, NexusError } from '@nexus/errors'
import { syncData, syncDirectory } from './atomic-write.ts'
import { isAbsent, openToRead } from './regular-file.ts'
import type { TreeRoot } from './tree-path.ts'

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
    for (const path of due) {
      // Removed first: what changes while this one is being synced is due again.
      paths.delete(path)
      try {
        await sync(path)
      } catch (error) {
        // What is gone needs no sync; that it is gone is its directory's business.
        if (isAbsent(error)) continue
        paths.add(path)
        throw error instanceof NexusError ? error : fromSystemError(error, 'session.sync', path)
      }
    }
  }
}
