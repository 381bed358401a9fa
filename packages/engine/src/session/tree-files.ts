import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readdirSync,
  readFile,
  unlinkSync,
} from 'node:fs'
import { promisify } from 'node:util'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import type { Failpoint } from '../failpoint.ts'
import { atomicWriteFile, isEngineTempName, syncData, syncDirectory, writeFully } from './atomic-write.ts'
import type { FileChange } from './file-events.ts'
import { PathQueue } from './path-queue.ts'
import { PathEscapeError, treeParent, type TreeDirectory, type TreeRoot, type TreeSlot } from './tree-path.ts'

/**
 * When writes are made durable, as `journal.fsync` says: `every-event` before the call resolves; `turn-boundary` file
 * contents before they get their name, everything else in {@link TreeFiles.sync}; `none` never.
 */
export type TreeFsync = 'turn-boundary' | 'every-event' | 'none'

const FILE_MODE = 0o600
// Never follow a link that was put there meanwhile, never block on a FIFO.
const SAFE = constants.O_NOFOLLOW | constants.O_NONBLOCK
const readDescriptor = promisify(readFile) as (fd: number) => Promise<Buffer>

/** The file operations of a session tree; paths are canonical session-relative ones. Calls for one path run in order. */
export class TreeFiles {
  readonly #root: TreeRoot
  readonly #fsync: TreeFsync
  readonly #failpoint: Failpoint
  readonly #queue = new PathQueue()
  readonly #unsyncedFiles = new Set<string>()
  readonly #unsyncedDirs = new Set<string>()

  constructor(root: TreeRoot, fsync: TreeFsync, failpoint: Failpoint) {
    this.#root = root
    this.#fsync = fsync
    this.#failpoint = failpoint
  }

  /** Replaces the whole file. `done` runs in the order of the writes, before the next one to this path starts. */
  async write(path: string, data: string | Uint8Array, done: (change: FileChange) => void): Promise<void> {
    const real = this.#resolve(path)
    await this.#queue.run(real, async () => {
      const slot = this.#open(real, true)
      try {
        refuseSpecial(slot, 'session.write')
        const { existed, sizeBytes } = await atomicWriteFile(slot.path, data, {
          fsync: this.#fsync === 'none' ? false : this.#fsync === 'every-event' || 'file-only',
          failpoint: this.#failpoint,
        })
        if (this.#fsync === 'turn-boundary') this.#unsyncedDirs.add(slot.parent.relPath)
        else if (this.#fsync === 'every-event') await this.#syncDirs()
        done({ path: slot.relPath, created: !existed, sizeBytes, offset: 0, bytesAdded: sizeBytes })
      } finally {
        slot.close()
      }
    })
  }

  /** Appends in one write call. The sizes around it come from the descriptor it went through. */
  async append(path: string, data: string | Uint8Array, done: (change: FileChange) => void): Promise<void> {
    const bytes = typeof data === 'string' ? Buffer.from(data, 'utf8') : data
    const real = this.#resolve(path)
    await this.#queue.run(real, async () => {
      const slot = this.#open(real, true)
      try {
        refuseSpecial(slot, 'session.append')
        const { fd, created } = openForAppend(slot)
        try {
          const sizeBefore = regularSize(fd, slot)
          await this.#failpoint('append:measured')
          await this.#appendRecord(fd, bytes, sizeBefore, created ? slot : undefined)
          const sizeBytes = fstatSync(fd).size
          await this.#appended(fd, slot, created)
          // Another process appended too: no offset would be true, and 0 means "treat it as rewritten".
          const alone = sizeBytes - sizeBefore === bytes.byteLength
          const offset = alone ? sizeBefore : 0
          done({
            path: slot.relPath,
            created,
            sizeBytes,
            offset,
            bytesAdded: offset === 0 ? sizeBytes : bytes.byteLength,
          })
        } finally {
          closeSync(fd)
        }
      } catch (error) {
        throw error instanceof NexusError ? error : fromSystemError(error, 'session.append', path)
      } finally {
        slot.close()
      }
    })
  }

  async #appendRecord(fd: number, bytes: Uint8Array, sizeBefore: number, created: TreeSlot | undefined): Promise<void> {
    const progress = { writtenBytes: 0 }
    try {
      await writeFully(fd, bytes, progress)
    } catch (error) {
      // A full disk took the front of the record. Cut it off, so that the next record starts on its own line, unless
      // somebody else appended in between: then the cut would take theirs.
      if (fstatSync(fd).size === sizeBefore + progress.writtenBytes) ftruncateSync(fd, sizeBefore)
      if (created !== undefined && fstatSync(fd).size === 0) unlinkSync(created.path)
      throw error
    }
  }

  async #appended(fd: number, slot: TreeSlot, created: boolean): Promise<void> {
    if (this.#fsync === 'none') return
    if (created) this.#unsyncedDirs.add(slot.parent.relPath)
    if (this.#fsync === 'turn-boundary') this.#unsyncedFiles.add(slot.relPath)
    else {
      await syncData(fd)
      await this.#syncDirs()
    }
  }

  /** Removes a file, or the link itself when the last component is one that stays inside. */
  async remove(path: string, done: (path: string) => void): Promise<void> {
    // Where a link leads decides whether it may be touched; what is removed is the link.
    this.#open(path, false).close()
    const named = this.#root.openSlot(path, { followLast: false })
    named.close()
    await this.#queue.run(named.relPath, async () => {
      const slot = this.#root.openSlot(named.relPath, { followLast: false })
      try {
        if (slot.stats?.isDirectory() === true) throw wrongKind(slot, 'session.delete', 'is a directory')
        unlinkSync(slot.path)
        if (this.#fsync === 'every-event') await syncDirectory(slot.parent.at(''))
        else if (this.#fsync === 'turn-boundary') this.#unsyncedDirs.add(slot.parent.relPath)
        done(slot.relPath)
      } catch (error) {
        throw error instanceof NexusError ? error : fromSystemError(error, 'session.delete', path)
      } finally {
        slot.close()
      }
    })
  }

  /** The content of a regular file. */
  async read(path: string): Promise<Buffer> {
    const slot = this.#open(path, false)
    let fd: number
    try {
      fd = openSync(slot.path, constants.O_RDONLY | SAFE)
    } catch (error) {
      throw fromOpen(error, 'session.read', path)
    } finally {
      slot.close()
    }
    try {
      if (!fstatSync(fd).isFile()) throw wrongKind({ relPath: path }, 'session.read', 'is not a regular file')
      return await readDescriptor(fd)
    } catch (error) {
      throw error instanceof NexusError ? error : fromSystemError(error, 'session.read', path)
    } finally {
      closeSync(fd)
    }
  }

  /** Whether a regular file is there. */
  exists(path: string): boolean {
    try {
      const slot = this.#open(path, false)
      slot.close()
      return slot.stats?.isFile() === true
    } catch (error) {
      if (error instanceof PathEscapeError || !isAbsent(error)) throw error
      return false
    }
  }

  /** Names of the regular files directly in a directory, sorted; none when it doesn't exist. */
  list(path: string): string[] {
    let dir: TreeDirectory
    try {
      dir = this.#root.openDirectory(path)
    } catch (error) {
      if (error instanceof PathEscapeError || !isAbsent(error)) throw error
      return []
    }
    try {
      return (
        readdirSync(dir.at(''), { withFileTypes: true })
          .filter(
            (entry) =>
              !isEngineTempName(entry.name) &&
              (entry.isFile() || (entry.isSymbolicLink() && this.#leadsToFile(dir, entry.name))),
          )
          .map((entry) => entry.name)
          // A name that isn't UTF-8 comes back as one that doesn't exist.
          .filter(
            (name) => !name.includes('\uFFFD') || lstatSync(dir.at(name), { throwIfNoEntry: false }) !== undefined,
          )
          .toSorted()
      )
    } catch (error) {
      throw fromSystemError(error, 'session.list', path)
    } finally {
      dir.close()
    }
  }

  #leadsToFile(dir: TreeDirectory, name: string): boolean {
    try {
      return this.exists(dir.relPath === '' ? name : `${dir.relPath}/${name}`)
    } catch {
      return false
    }
  }

  /** Makes a directory and what is missing above it. */
  makeDirectory(path: string): void {
    this.#root.openDirectory(path, { create: true, onCreate: this.#onCreate }).close()
  }

  /** Resolves when every write that was called before has settled. */
  idle(): Promise<void> {
    return this.#queue.idle()
  }

  /** Under `turn-boundary`: makes everything written so far durable. What fails stays due. */
  async sync(): Promise<void> {
    await this.idle()
    for (const path of this.#unsyncedFiles) {
      try {
        const slot = this.#root.openSlot(path)
        try {
          const fd = openSync(slot.path, constants.O_RDONLY | SAFE)
          try {
            await syncData(fd)
          } finally {
            closeSync(fd)
          }
        } finally {
          slot.close()
        }
      } catch (error) {
        if (!isAbsent(error)) throw error instanceof NexusError ? error : fromSystemError(error, 'session.sync', path)
      }
      this.#unsyncedFiles.delete(path)
    }
    await this.#syncDirs()
  }

  async #syncDirs(): Promise<void> {
    for (const path of this.#unsyncedDirs) {
      try {
        const dir = this.#root.openDirectory(path)
        try {
          await syncDirectory(dir.at(''))
        } finally {
          dir.close()
        }
      } catch (error) {
        if (!isAbsent(error)) throw error instanceof NexusError ? error : fromSystemError(error, 'session.sync', path)
      }
      this.#unsyncedDirs.delete(path)
    }
  }

  readonly #onCreate = (relPath: string): void => {
    if (this.#fsync !== 'none') this.#unsyncedDirs.add(treeParent(relPath))
  }

  #open(path: string, create: boolean): TreeSlot {
    return this.#root.openSlot(path, create ? { create: true, onCreate: this.#onCreate } : {})
  }

  /** What the queue goes by: two names of one file share it. */
  #resolve(path: string): string {
    const slot = this.#open(path, true)
    slot.close()
    return slot.relPath
  }
}

/** Opens for append without following a link; tells whether this call made the file. */
function openForAppend(slot: TreeSlot): { fd: number; created: boolean } {
  const flags = constants.O_WRONLY | constants.O_APPEND | SAFE
  for (let attempt = 0; ; attempt++) {
    try {
      return { fd: openSync(slot.path, flags), created: false }
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw fromOpen(error, 'session.append', slot.relPath)
    }
    try {
      return { fd: openSync(slot.path, flags | constants.O_CREAT | constants.O_EXCL, FILE_MODE), created: true }
    } catch (error) {
      // Another process made it between the two calls, and may remove it again; it won't for ever.
      if (systemCode(error) !== 'EEXIST' || attempt === 8) throw fromOpen(error, 'session.append', slot.relPath)
    }
  }
}

function regularSize(fd: number, slot: TreeSlot): number {
  const stats = fstatSync(fd)
  if (!stats.isFile()) throw wrongKind(slot, 'session.append', 'is not a regular file')
  return stats.size
}

function refuseSpecial(slot: TreeSlot, op: string): void {
  if (slot.stats === undefined || slot.stats.isFile()) return
  throw wrongKind(slot, op, slot.stats.isDirectory() ? 'is a directory' : 'is not a regular file')
}

function wrongKind(slot: { relPath: string }, op: string, what: string): NexusError {
  return new NexusError('INVALID_ARGUMENT', `${JSON.stringify(slot.relPath)} ${what}`, { op, key: slot.relPath })
}

function fromOpen(error: unknown, op: string, path: string): NexusError {
  const code = systemCode(error)
  if (code === 'ELOOP') return new PathEscapeError(path, 'was replaced by a link while it was being opened')
  return code === 'ENXIO' ? wrongKind({ relPath: path }, op, 'is not a regular file') : fromSystemError(error, op, path)
}

function isAbsent(error: unknown): boolean {
  const cause = error instanceof NexusError ? error.cause : error
  const code = systemCode(cause)
  return code === 'ENOENT' || code === 'ENOTDIR'
}
