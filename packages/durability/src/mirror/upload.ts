import type { StagedFile } from '../capture/stage.ts'
import { closeSync, fstatSync, ftruncateSync } from 'node:fs'
import { isNexusError } from '@nexus/errors'
import { isInvalidKeyError, type ObjectStore } from '@nexus/objectstore'
import {
  descriptorPath,
  type FileDigest,
  type Slices,
  type TreeCursor,
  type FileDigester,
  fileFault,
} from '@nexus/host'
import { sameFileStat, toFileStat, type FileStat } from '../tree/tree-stat.ts'
import { CopySlots } from './copy-slots.ts'
import type { ManifestEntry } from './manifest/manifest.ts'

/** What became of one file. */
export type UploadOutcome =
  | { kind: 'stored'; entry: ManifestEntry }
  /** It is not there any more, or no regular file, or behind a link by now: the tree is to be looked at again. */
  | { kind: 'gone' }
  /** SQLite is writing to it: it is to be copied through SQLite. */
  | { kind: 'database' }
  | { kind: 'unstorable'; why: string }

export interface UploaderOptions {
  store: ObjectStore
  /** Key prefix of the tree. */
  keyPrefix: string
  /** The session's directory. */
  cursor: TreeCursor
  /** An existing directory, which private copies share with other files of the snapshot. */
  stagingDir: string
  digester: FileDigester
  slices: Slices
}

const OP = 'snapshot.upload'
const PERMISSION_BITS = 0o777
/** Larger files are stored from where they are: a copy would need as much room on the disk. */
const COPY_BYTES = 16 * 1024 * 1024
/** How often a file is read again because it changed meanwhile. */
const MAX_TRIES = 3

/**
 * Stores files so that what the manifest says of them holds for the stored bytes, whatever writes to the file meanwhile, and
 * so that no byte from outside of the tree is stored, whatever is swapped for a link: each file is opened once, from the
 * directories that are held, and everything is read through that descriptor.
 *
 * A file is copied and hashed in one go, and the copy is stored: a program that writes through a shared mapping moves no
 * time stamp, so that the original can't be trusted between two readings. A large one is stored from its descriptor, and
 * hashed before and after; one that changed is copied all the same.
 *
 * @see docs/concepts/durability.md
 */
export class Uploader {
  readonly #options: UploaderOptions
  readonly #slots: CopySlots

  constructor(options: UploaderOptions) {
    this.#options = options
    this.#slots = new CopySlots(options.stagingDir)
  }

  /** Frees the descriptors of copies that are no longer in use. */
  close(): void {
    this.#slots.close()
  }

  /**
   * Stores a file of the tree.
   *
   * @param named the digest that its name states: a large one is then hashed once instead of twice
   * @throws what the store says, the signal's reason, and `LOCAL_IO` when the machine has run out of something
   */
  async putLive(path: string, signal: AbortSignal, named?: string): Promise<UploadOutcome> {
    signal.throwIfAborted()
    let fd: number
    try {
      // Anew for each: a directory that was renamed meanwhile is found under its new name, and none outside is read.
      this.#options.cursor.reset()
      fd = this.#options.cursor.openFile(path)
    } catch (error) {
      return unreadable(error, path)
    }
    try {
      const size = statOf(fd).size
      const inPlace = size > COPY_BYTES ? await this.#putInPlace(path, fd, signal, named) : undefined
      return inPlace ?? (await this.#putCopy(path, fd, signal))
    } catch (error) {
      signal.throwIfAborted()
      return isNexusError(error) ? refusedKey(error) : unreadable(error, path)
    } finally {
      closeSync(fd)
    }
  }

  /** Stores a copy of our own, which nothing else writes to. Rejects when the store fails or the signal fires. */
  async putStaged(
    { path, localPath, sizeBytes, mode, mtimeNs }: StagedFile,
    signal: AbortSignal,
  ): Promise<UploadOutcome> {
    const { store, keyPrefix, digester, slices } = this.#options
    const [digest, put] = await Promise.allSettled([
      digester.digest(localPath, { sizeHint: sizeBytes, slices }),
      store.put(`${keyPrefix}/${path}`, localPath, { signal }),
    ])
    signal.throwIfAborted()
    if (put.status === 'rejected') return refusedKey(put.reason)
    if (digest.status === 'rejected') throw digest.reason
    const { sha256, bytes } = digest.value
    return { kind: 'stored', entry: { size: bytes, mode: mode & PERMISSION_BITS, mtime_ns: String(mtimeNs), sha256 } }
  }

  /** The digest of a file that isn't being stored, or undefined when it can't be read or is another than was walked. */
  async digestOf(path: string, walked: FileStat, signal: AbortSignal): Promise<string | undefined> {
    signal.throwIfAborted()
    let fd: number | undefined
    try {
      this.#options.cursor.reset()
      fd = this.#options.cursor.openFile(path)
      const { sha256, bytes } = await this.#digest(fd, walked.size)
      return sameFileStat(walked, statOf(fd)) && bytes === walked.size ? sha256 : undefined
    } catch (error) {
      signal.throwIfAborted()
      fileFault(error, OP, path)
      return undefined
    } finally {
      if (fd !== undefined) closeSync(fd)
    }
  }

  /** Undefined when the file changed meanwhile. */
  async #putInPlace(path: string, fd: number, signal: AbortSignal, named?: string): Promise<UploadOutcome | undefined> {
    const from = descriptorPath(fd)
    if (from === undefined) return undefined
    const { store, keyPrefix } = this.#options
    for (let tries = 1; tries < MAX_TRIES; tries++) {
      const before = statOf(fd)
      const sha256 = tries === 1 && named !== undefined ? named : (await this.#digest(fd, before.size)).sha256
      const failure = await store.put(`${keyPrefix}/${path}`, from, { signal }).catch((error: unknown) => ({ error }))
      signal.throwIfAborted()
      // A driver that trips over a file in motion may well call it the store's fault, so the file is looked at first.
      if (sameFileStat(before, statOf(fd))) {
        if (failure) throw failure.error
        const after = await this.#digest(fd, before.size)
        if (after.sha256 === sha256 && after.bytes === before.size)
          return { kind: 'stored', entry: entryOf(before, sha256) }
      }
      if (this.#hasSidecar(path)) return { kind: 'database' }
    }
    return undefined
  }

  async #putCopy(path: string, fd: number, signal: AbortSignal): Promise<UploadOutcome> {
    const slot = this.#slots.take()
    let isReadToEnd = false
    try {
      for (let tries = 1; ; tries++) {
        const before = statOf(fd)
        const { sha256, bytes } = await this.#digest(fd, before.size, slot.fd)
        signal.throwIfAborted()
        const isQuiet = bytes === before.size && sameFileStat(before, statOf(fd))
        if (!isQuiet && this.#hasSidecar(path)) return { kind: 'database' }
        if (!isQuiet && tries < MAX_TRIES) continue
        // The slot may hold more of the file that used it before.
        ftruncateSync(slot.fd, bytes)
        await this.#options.store.put(`${this.#options.keyPrefix}/${path}`, slot.path, { signal })
        isReadToEnd = true
        return { kind: 'stored', entry: entryOf({ ...before, size: bytes }, sha256) }
      }
    } finally {
      // After a failure a driver may still be reading what it gave up on.
      this.#slots.giveBack(slot, isReadToEnd)
    }
  }

  #digest(fd: number, limit: number, copyTo?: number): Promise<FileDigest> {
    const { digester, slices } = this.#options
    return digester.digest(fd, { limit, copyTo, sizeHint: limit, slices })
  }

  /** Whether a name beside the file says that SQLite is at work on it. */
  #hasSidecar(path: string): boolean {
    return ['-journal', '-wal'].some((suffix) => this.#options.cursor.lstat(path + suffix)?.isFile() === true)
  }
}

function statOf(fd: number): FileStat {
  return toFileStat(fstatSync(fd, { bigint: true }))
}

function entryOf(stat: FileStat, sha256: string): ManifestEntry {
  return { size: stat.size, mode: stat.mode & PERMISSION_BITS, mtime_ns: String(stat.mtimeNs), sha256 }
}

/** A key that the store can't hold is this file's problem; whatever else the store says ends the snapshot. */
function refusedKey(error: unknown): UploadOutcome {
  if (!isInvalidKeyError(error)) throw error
  return { kind: 'unstorable', why: `the store can't hold its name: it ${error.reason}` }
}

function unreadable(error: unknown, path: string): UploadOutcome {
  const fault = fileFault(error, OP, path)
  return fault.kind === 'gone' ? fault : { kind: 'unstorable', why: fault.why }
}
