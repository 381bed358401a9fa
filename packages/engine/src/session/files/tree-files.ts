import { closeSync, lstatSync, readdirSync, readFile, unlinkSync } from 'node:fs'
import { promisify } from 'node:util'
import { readRefusal, writeRefusal } from '@nexus/durability/names'
import { fromSystemError, NexusError } from '@nexus/errors'
import {
  atomicWriteFile,
  type Failpoint,
  isEngineTempName,
  type Logger,
  PathEscapeError,
  silentLogger,
  syncData,
  syncDirectory,
  type TreeDirectory,
  treeParent,
  type TreeRoot,
  type TreeSlot,
} from '@nexus/host'
import { appendRecord } from './append-record.ts'
import { endLastRecord } from './last-record.ts'
import type { FileChange } from './file-events.ts'
import { PathQueue } from './path-queue.ts'
import { isAbsent, openToRead, refuseSpecial, wrongKind } from './regular-file.ts'
import { UnsyncedPaths } from './unsynced-paths.ts'

/**
 * When writes are made durable, as `journal.fsync` says: `every-event` before the call resolves; `turn-boundary` the
 * content of a whole file before it gets its name, everything else in {@link TreeFiles.sync}; `none` never.
 */
export type TreeFsync = 'turn-boundary' | 'every-event' | 'none'

const NEWLINE = 0x0a
const readDescriptor = promisify(readFile) as (fd: number) => Promise<Buffer>

/** The file operations of a session tree; paths are canonical session-relative ones. Calls for one path run in order. */
export class TreeFiles {
  readonly #root: TreeRoot
  readonly #fsync: TreeFsync
  readonly #failpoint: Failpoint
  readonly #queue = new PathQueue()
  readonly #unsynced: UnsyncedPaths
  readonly #logger: Logger
  /** What our last append left, by path, of files of JSON lines. */
  readonly #ends = new Map<string, { sizeBytes: number; hasNewline: boolean }>()

  constructor(root: TreeRoot, fsync: TreeFsync, failpoint: Failpoint, logger: Logger = silentLogger) {
    this.#logger = logger
    this.#root = root
    this.#fsync = fsync
    this.#failpoint = failpoint
    this.#unsynced = new UnsyncedPaths(root)
  }

  /**
   * Replaces the whole file. `done` runs in the order of the writes, before the next one to this path starts.
   *
   * @throws NexusError `INVALID_ARGUMENT` for a file of the engine, under whatever name it is reached
   */
  async write(path: string, data: Uint8Array, done: (change: FileChange) => void): Promise<void> {
    await this.#write(path, data, done, writeRefusal)
  }

  /** {@link write} for the engine itself. */
  async writeOwn(path: string, data: Uint8Array, done: (change: FileChange) => void): Promise<void> {
    await this.#write(path, data, done, () => undefined)
  }

  async #write(path: string, data: Uint8Array, done: (change: FileChange) => void, refusal: Refusal): Promise<void> {
    await this.#change(path, 'session.write', refusal, async (slot) => {
      const { existed, sizeBytes } = await atomicWriteFile(slot.path, data, {
        fsync: this.#fsync === 'none' ? false : this.#fsync === 'every-event' || 'file-only',
        failpoint: this.#failpoint,
      })
      if (this.#fsync === 'turn-boundary') this.#unsynced.addDirectory(slot.parent.relPath)
      if (this.#fsync === 'every-event') await this.#unsynced.syncDirectories()
      done({ path: slot.relPath, created: !existed, sizeBytes, offset: 0, bytesAdded: sizeBytes })
    })
  }

  /**
   * Appends in one write call. In a file of JSON lines the record before gets its newline when it lacks one; what a crash
   * left of a record is put aside, and told.
   */
  async append(path: string, bytes: Uint8Array, done: (change: FileChange) => void): Promise<void> {
    await this.#change(path, 'session.append', writeRefusal, async (slot) => {
      const isLines = slot.relPath.endsWith('.jsonl')
      const record = isLines ? this.#onNewLine(slot, bytes, done) : bytes
      const change = await appendRecord(slot, record, this.#failpoint, (fd, created) =>
        this.#appended(fd, slot, created),
      )
      if (isLines) this.#ends.set(slot.relPath, { sizeBytes: change.sizeBytes, hasNewline: bytes.at(-1) === NEWLINE })
      done(change)
    })
  }

  /** The record, with a newline before it where the last one lacks it. */
  #onNewLine(slot: TreeSlot, bytes: Uint8Array, done: (change: FileChange) => void): Uint8Array {
    const end = this.#ends.get(slot.relPath)
    const isOurs = end !== undefined && end.sizeBytes === slot.stats?.size
    if (slot.stats === undefined || bytes[0] === NEWLINE || (isOurs && end.hasNewline)) return bytes
    // Once in a run: what is there before the first append can be of a run that was killed. Later it is somebody's who writes.
    const { newline, torn } = endLastRecord(slot, end === undefined)
    if (torn !== undefined) {
      const { keptAt, offset, sizeBytes } = torn
      this.#logger.warn(
        { path: slot.relPath, offset, size: sizeBytes, kept_at: keptAt },
        'the last record of a file was cut off: it was put aside, and the file goes on behind the one before',
      )
      this.#unsynced.addDirectory(slot.parent.relPath)
      done({ path: keptAt, created: true, sizeBytes, offset: 0, bytesAdded: sizeBytes })
    }
    return newline ? Buffer.concat([Buffer.of(NEWLINE), bytes]) : bytes
  }

  async #appended(fd: number, slot: TreeSlot, created: boolean): Promise<void> {
    if (this.#fsync === 'none') return
    if (created) this.#unsynced.addDirectory(slot.parent.relPath)
    if (this.#fsync === 'turn-boundary') this.#unsynced.addFile(slot.relPath)
    else {
      await syncData(fd)
      await this.#unsynced.syncDirectories()
    }
  }

  async #change(path: string, op: string, refusal: Refusal, change: (slot: TreeSlot) => Promise<void>): Promise<void> {
    refuseEngineFile(path, refusal, op)
    // The queue goes by the real path: two names of one file share it. Who has to wait looks again when its turn comes,
    // and holds no descriptor until then.
    const named = this.#open(path, true)
    const startsNow = this.#queue.isFree(named.relPath)
    const refused = refusal(named.relPath) !== undefined
    if (!startsNow || refused) named.close()
    // A link to a file of the engine is no way around.
    if (refused) refuseEngineFile(named.relPath, refusal, op)
    await this.#queue.run(named.relPath, async () => {
      const slot = startsNow ? named : this.#open(named.relPath, true)
      try {
        refuseSpecial(slot, op)
        await change(slot)
      } catch (error) {
        throw error instanceof NexusError ? error : fromSystemError(error, op, path)
      } finally {
        slot.close()
      }
    })
  }

  /** Removes a file, or the link itself when the last component is one that stays inside. */
  async remove(path: string, done: (path: string) => void): Promise<void> {
    refuseEngineFile(path, writeRefusal, 'session.delete')
    // Where a link leads decides whether it may be touched; what is removed is the link.
    this.#open(path, false).close()
    const named = this.#root.openSlot(path, { followLast: false })
    named.close()
    refuseEngineFile(named.relPath, writeRefusal, 'session.delete')
    await this.#queue.run(named.relPath, async () => {
      const slot = this.#root.openSlot(named.relPath, { followLast: false })
      try {
        if (slot.stats?.isDirectory() === true) throw wrongKind(path, 'session.delete', 'is a directory')
        unlinkSync(slot.path)
        if (this.#fsync === 'every-event') await syncDirectory(slot.parent.at(''))
        if (this.#fsync === 'turn-boundary') this.#unsynced.addDirectory(slot.parent.relPath)
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
    refuseEngineFile(path, readRefusal, 'session.read')
    const slot = this.#open(path, false)
    let fd: number
    try {
      refuseEngineFile(slot.relPath, readRefusal, 'session.read')
      fd = openToRead(slot)
    } finally {
      slot.close()
    }
    try {
      return await readDescriptor(fd)
    } catch (error) {
      throw fromSystemError(error, 'session.read', path)
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
    let directory: TreeDirectory
    try {
      directory = this.#root.openDirectory(path)
    } catch (error) {
      if (error instanceof PathEscapeError || !isAbsent(error)) throw error
      return []
    }
    try {
      const isFile = (name: string): boolean => this.#leadsToFile(directory, name)
      return readdirSync(directory.at(''), { withFileTypes: true })
        .filter((entry) => entry.isFile() || (entry.isSymbolicLink() && isFile(entry.name)))
        .map((entry) => entry.name)
        .filter((name) => !isEngineTempName(name) && isUsableName(directory, name))
        .toSorted()
    } catch (error) {
      throw fromSystemError(error, 'session.list', path)
    } finally {
      directory.close()
    }
  }

  #leadsToFile(directory: TreeDirectory, name: string): boolean {
    try {
      return this.exists(directory.relPath === '' ? name : `${directory.relPath}/${name}`)
    } catch {
      return false
    }
  }

  /** Makes a directory and what is missing above it. */
  makeDirectory(path: string): void {
    this.#root.openDirectory(path, { create: true, onCreate: this.#onCreate }).close()
  }

  /** Resolves when every change that was called for before has settled. */
  idle(): Promise<void> {
    return this.#queue.idle()
  }

  /** Makes everything written so far durable where the policy left it to the turn boundary. What fails stays due. */
  async sync(): Promise<void> {
    await this.idle()
    await this.#unsynced.sync()
  }

  readonly #onCreate = (relPath: string): void => {
    if (this.#fsync !== 'none') this.#unsynced.addDirectory(treeParent(relPath))
  }

  #open(path: string, create: boolean): TreeSlot {
    return this.#root.openSlot(path, create ? { create: true, onCreate: this.#onCreate } : {})
  }
}

type Refusal = (path: string) => string | undefined

function refuseEngineFile(path: string, refusal: Refusal, op: string): void {
  const why = refusal(path)
  if (why === undefined) return
  throw new NexusError('INVALID_ARGUMENT', `${JSON.stringify(path)} belongs to the engine: ${why}`, { op, key: path })
}

/** A name that isn't UTF-8 comes back as one that doesn't exist. */
function isUsableName(directory: TreeDirectory, name: string): boolean {
  return !name.includes('\uFFFD') || lstatSync(directory.at(name), { throwIfNoEntry: false }) !== undefined
}
