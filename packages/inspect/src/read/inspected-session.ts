import { closeSync, createReadStream, readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { isNexusError } from '@nexus/errors'
import { JournalReader, type JournalReaderOptions } from '@nexus/journal'
import { blobDigest, blobPath, isPluginDatabase, META_PATH } from '@nexus/durability/names'
import Database, { type Database as Connection } from 'better-sqlite3'
import type { Scratch } from './scratch.ts'
import type { SessionFiles } from './session-files.ts'
import { parseSessionMetadata, type SessionMetadata } from './session-metadata.ts'
import type { TreeEntry } from './tree-entry.ts'

/** Where the bytes of each session come from: known to this package only. */
const FILES = new WeakMap<InspectedSession, SessionFiles>()

/** A blob of a session. */
export interface BlobEntry {
  readonly sha256: string
  readonly sizeBytes: number
  /** '' when it is not known. */
  readonly mediaType: string
}

/**
 * A session opened for reading. Nothing of it is locked, run or changed, and it may be running meanwhile: what is read of a
 * tree on this disk is then as of the moment it is read. `await using` closes it.
 */
export class InspectedSession implements AsyncDisposable {
  readonly id: string
  readonly #files: SessionFiles
  readonly #scratch: Scratch
  readonly #connections: Connection[] = []

  constructor(id: string, files: SessionFiles, scratch: Scratch) {
    this.id = id
    this.#files = files
    FILES.set(this, files)
    this.#scratch = scratch
  }

  /** Whether a tree on this disk is read, or a commit in a store. */
  get source(): 'local' | 'store' {
    return this.#files.source
  }

  /** The directory, or the key prefix. */
  get where(): string {
    return this.#files.where
  }

  /** The commit that is read; undefined for a tree on this disk. */
  get generation(): number | undefined {
    return this.#files.generation
  }

  /** What the session says of itself; undefined when it says nothing. */
  async metadata(): Promise<SessionMetadata | undefined> {
    try {
      return parseSessionMetadata((await this.read(META_PATH)).toString('utf8'))
    } catch (error) {
      if (isNexusError(error, 'NOT_FOUND')) return undefined
      throw error
    }
  }

  /** Everything in the tree that could be stored, sorted by path: locks, sidecars and temporary files are left out. */
  async entries(): Promise<TreeEntry[]> {
    return await this.#files.entries()
  }

  /**
   * A file as a stream.
   *
   * @param path session-relative
   * @throws PathEscapeError for a path that leaves the session; NexusError `NOT_FOUND`; `PRECONDITION` for the database of a
   *   session that this process runs; `CORRUPT` when the store holds something else than was committed
   */
  async open(path: string): Promise<Readable> {
    const { fd, sizeBytes } = await this.#files.openFile(path)
    if (sizeBytes > 0) return createReadStream('', { fd, start: 0, end: sizeBytes - 1 })
    closeSync(fd)
    return Readable.from([])
  }

  /** A small file whole; otherwise as {@link open}. */
  async read(path: string): Promise<Buffer> {
    const { fd } = await this.#files.openFile(path)
    try {
      return readFileSync(fd)
    } finally {
      closeSync(fd)
    }
  }

  /** The journal's events in order. Rejects as `JournalReader.open`. */
  async journal(options: JournalReaderOptions = {}): Promise<JournalReader> {
    return await JournalReader.open(await this.#files.journalDir(), options)
  }

  /** The highest seq of the journal; 0 when it is empty, or there is none. */
  async lastSeq(): Promise<number> {
    try {
      return await (await this.journal()).lastSeq()
    } catch (error) {
      if (isNexusError(error, 'NOT_FOUND')) return 0
      throw error
    }
  }

  /** A directory that holds the journal, for the functions of `@nexus/journal` that only read. Gone after {@link close}. */
  async journalDir(): Promise<string> {
    return await this.#files.journalDir()
  }

  /** The blobs, by digest. */
  async *blobs(): AsyncGenerator<BlobEntry, undefined> {
    const entries = await this.entries()
    const paths = new Set(entries.map(({ path }) => path))
    for (const { path, sizeBytes } of entries) {
      const sha256 = blobDigest(path)
      if (sha256 === undefined) continue
      const meta = blobPath(sha256, 'meta')
      yield { sha256, sizeBytes, mediaType: paths.has(meta) ? await this.#mediaType(meta) : '' }
    }
  }

  async #mediaType(path: string): Promise<string> {
    try {
      return (await this.read(path)).toString('utf8').split('\n', 1)[0] ?? ''
    } catch (error) {
      if (isNexusError(error, 'NOT_FOUND')) return ''
      throw error
    }
  }

  /** Paths of the databases of plugins. Any other SQLite file can be opened by its path, too. */
  async databases(): Promise<string[]> {
    const entries = await this.entries()
    return entries.filter(({ path, kind }) => kind === 'file' && isPluginDatabase(path)).map(({ path }) => path)
  }

  /**
   * A database as of one instant, read-only, closed with the session: a copy, since opening one in place writes beside it.
   *
   * @throws NexusError `NOT_FOUND`; `PRECONDITION` while this process runs the session; `UNAVAILABLE` when it changes faster
   *   than it can be copied
   */
  async openDatabase(path: string): Promise<Connection> {
    const connection = new Database(await this.#files.databaseCopy(path), { fileMustExist: true })
    this.#connections.push(connection)
    // Not opened read-only: that could not bring the WAL of the copy into order.
    connection.pragma('query_only = true')
    return connection
  }

  /** Closes what was opened and removes copies. */
  async close(): Promise<void> {
    for (const connection of this.#connections.splice(0)) connection.close()
    await this.#files.close()
    await this.#scratch.remove()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** Where the bytes of a session come from, for the rest of this package. */
export function filesOf(session: InspectedSession): SessionFiles {
  return FILES.get(session) as SessionFiles
}
