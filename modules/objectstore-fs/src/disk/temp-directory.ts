import { engineTempName, isAbandonedTemp, isEngineTempName } from '@nexus/host'
import { NexusError } from '@nexus/objectstore'
import { CREATE_FLAGS, errorCode, unless, type SyncFileSystem } from './file-system.ts'
import { TEMP_DIRECTORY } from '../keys.ts'

/** A file being written, not yet under its name. */
export interface TempFile {
  path: string
  fd: number
}

/**
 * The one directory of a bucket in which objects are written before they get their name. Apart from the tree, so that no
 * listing meets a half-written object and what dead processes left is found without a walk.
 */
export class TempDirectory {
  readonly path: string
  readonly #fs: SyncFileSystem
  readonly #modes: { file: number; directory: number }

  constructor(bucket: string, fs: SyncFileSystem, modes: { file: number; directory: number }) {
    this.path = `${bucket}/${TEMP_DIRECTORY}`
    this.#fs = fs
    this.#modes = modes
  }

  /** A new file. The caller closes the descriptor. */
  create(): TempFile {
    this.#ensure()
    const path = `${this.path}/${engineTempName()}`
    const fd = this.#fs.openSync(path, CREATE_FLAGS, this.#modes.file)
    return { path, fd }
  }

  /** Removes a temp file that is not needed, or not any more: what was linked keeps its other name. */
  discard(temp: TempFile): void {
    // The first error of a call is the one to report; a name that stays is taken by a later reclaim.
    try {
      this.#fs.unlinkSync(temp.path)
    } catch {}
  }

  /**
   * Removes files of processes that are gone: judged by pid within our own boot and pid namespace, else by a day without a
   * write. Those of live processes stay. Gives how many were removed.
   */
  reclaim(nowMs: number): number {
    let removed = 0
    for (const name of unless(['ENOENT', 'ENOTDIR'], () => this.#fs.readdirSync(this.path)) ?? []) {
      const path = `${this.path}/${name}`
      const stat = this.#fs.lstatSync(path, { throwIfNoEntry: false })
      if (stat?.isFile() !== true) continue
      if (!isEngineTempName(name) || !isAbandonedTemp(name, stat.mtimeMs, nowMs)) continue
      if (unless(['ENOENT'], () => (this.#fs.unlinkSync(path), true)) === true) removed++
    }
    return removed
  }

  #ensure(): void {
    const stat = this.#fs.lstatSync(this.path, { throwIfNoEntry: false })
    if (stat === undefined) {
      // Never recursive: a bucket that is gone must fail, not be made again beneath its mount point.
      try {
        this.#fs.mkdirSync(this.path, { mode: this.#modes.directory })
      } catch (error) {
        if (errorCode(error) !== 'EEXIST') throw error
      }
    } else if (!stat.isDirectory()) {
      throw new NexusError('PRECONDITION', `${this.path} is in the way of the directory for temporary files`, {
        op: 'objectstore.put',
        key: this.path,
      })
    }
  }
}
