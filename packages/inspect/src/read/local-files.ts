import { fstatSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fromSystemError, isNexusError, NexusError, systemCode } from '@nexus/errors'
import { openRegular, parseTreePath, Slices, TreeCursor } from '@nexus/host'
import { isDatabaseName, isPluginDatabase, JOURNAL_DIR, refuseReplacedDirectories } from '@nexus/durability/names'
import { TreeWalker } from '@nexus/durability/tools'
import Database from 'better-sqlite3'
import { copyDatabase, settleDatabase } from './database-copy.ts'
import { isHeldHere } from './lock-look.ts'
import type { Scratch } from './scratch.ts'
import type { OpenedFile, SessionFiles } from './session-files.ts'
import { entriesOfTree, type TreeEntry } from './tree-entry.ts'

/** A session tree on this disk, as it is now, running or not. Links are named and never followed. */
export class LocalFiles implements SessionFiles {
  readonly source = 'local'
  readonly where: string
  readonly generation: undefined = undefined
  readonly #cursor: TreeCursor
  /** Copies of databases, by path. */
  readonly #settled = new Map<string, string>()
  readonly #scratch: Scratch
  readonly #signal: AbortSignal | undefined

  /** @throws NexusError `NOT_FOUND` without such a directory; `PRECONDITION` when a link took the place of one of its own */
  constructor(dir: string, scratch: Scratch, signal?: AbortSignal) {
    this.where = resolve(dir)
    this.#cursor = new TreeCursor(this.where)
    this.#scratch = scratch
    this.#signal = signal
    refuseReplacedDirectories(this.where)
  }

  async entries(): Promise<TreeEntry[]> {
    const slices = new Slices({ signal: this.#signal })
    const walker = new TreeWalker(this.#cursor, { maxPathBytes: Number.POSITIVE_INFINITY, slices })
    return entriesOfTree(await walker.walk())
  }

  async openFile(path: string): Promise<OpenedFile> {
    const inside = parseTreePath(path, 'file')
    if (isPluginDatabase(inside)) this.#refuseOwnDatabase(inside)
    try {
      this.#cursor.reset()
      const fd = this.#cursor.openFile(inside)
      return { fd, sizeBytes: fstatSync(fd).size }
    } catch (error) {
      throw fromSystemError(error, 'inspect.open', inside)
    }
  }

  async openSettled(path: string): Promise<OpenedFile> {
    const settled = this.#settled.get(path) ?? (await this.#settle(path))
    if (settled === undefined) return await this.openFile(path)
    this.#settled.set(path, settled)
    const { fd, size } = openRegular(settled)
    return { fd, sizeBytes: size }
  }

  /** A copy of a database in which the WAL was folded into the file; undefined where there is none to fold. */
  async #settle(path: string): Promise<string | undefined> {
    if (!isDatabaseName(path)) return undefined
    const sizes = ['-wal', '-journal'].map((suffix) => Number(this.#cursor.lstat(path + suffix)?.size ?? 0n))
    if (sizes.every((size) => size === 0)) return undefined
    const copy = await this.databaseCopy(path)
    try {
      settleDatabase(copy)
      return copy
    } catch (error) {
      // A file of somebody that is called like a database.
      if (error instanceof Database.SqliteError && error.code === 'SQLITE_NOTADB') return undefined
      throw error
    }
  }

  async check(): Promise<undefined> {}

  async journalDir(): Promise<string> {
    return join(this.where, JOURNAL_DIR)
  }

  async databaseCopy(path: string): Promise<string> {
    const inside = parseTreePath(path, 'file')
    this.#refuseOwnDatabase(inside)
    try {
      // The cursor refuses a way that leads through a link.
      this.#cursor.reset()
      const there = this.#cursor.lstat(inside)
      if (there?.isFile() === true) {
        return await copyDatabase(join(this.where, inside), this.#scratch.newDir(), { signal: this.#signal })
      }
    } catch (error) {
      if (isNexusError(error) || systemCode(error) === undefined) throw error
      throw fromSystemError(error, 'inspect.database', inside)
    }
    throw new NexusError('NOT_FOUND', `${this.where} has no file ${inside}`, { op: 'inspect.database', key: inside })
  }

  async close(): Promise<void> {
    this.#cursor.close()
  }

  #refuseOwnDatabase(path: string): void {
    if (!isHeldHere(this.where)) return
    const message = `this process runs the session of ${path}: read it through the session's own storage and its reader()`
    throw new NexusError('PRECONDITION', message, { op: 'inspect.database', key: path })
  }
}
