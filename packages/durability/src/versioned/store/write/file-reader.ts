import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { isNexusError } from '@nexus/errors'
import { type Slices, type TreeCursor, fileFault } from '@nexus/host'
import type { StagedFile } from '../../../capture/stage.ts'
import { type FileStat, sameFileStat, toFileStat } from '../../../tree/tree-stat.ts'
import { chunkSizeOf, type NewFile } from '../chunk-size.ts'
import { chunkSteps } from '../chunk-steps.ts'
import type { TreeDraft } from './tree-draft.ts'

/** What became of one file. */
export type ReadOutcome =
  | { kind: 'read' }
  /** It is not there any more, or no regular file, or behind a link by now: the tree is to be looked at again. */
  | { kind: 'gone' }
  /** SQLite is writing to it: it is to be copied through SQLite. */
  | { kind: 'database' }
  | { kind: 'unstorable'; why: string }

const OP = 'snapshot.read'
const PERMISSION_BITS = 0o777
/** How often a file is read again because it changed meanwhile. The last reading counts: its digests are of what is stored. */
const MAX_TRIES = 3

/**
 * Reads files into a draft: each is opened once, from the directories that are held, so that no byte from outside of the tree is
 * stored, whatever is swapped for a link.
 *
 * @see docs/concepts/durability.md
 */
export class FileReader {
  readonly #draft: TreeDraft
  readonly #cursor: TreeCursor
  readonly #slices: Slices
  /** Bytes of the content that was read. */
  readBytes = 0

  constructor(draft: TreeDraft, cursor: TreeCursor, slices: Slices) {
    this.#draft = draft
    this.#cursor = cursor
    this.#slices = slices
  }

  /** Reads a file of the tree. Rejects when storing fails, and when the machine has run out of something. */
  async readLive(path: string, isDatabase: boolean): Promise<ReadOutcome> {
    let fd: number
    try {
      // Anew for each: a directory that was renamed meanwhile is found under its new name, and none outside is read.
      this.#cursor.reset()
      fd = this.#cursor.openFile(path)
    } catch (error) {
      return unreadable(error, path)
    }
    try {
      for (let tries = 1; ; tries++) {
        const before = statOf(fd)
        const about = { size: before.size, isDatabase, pageSize: 0 }
        const { size, chunkSize, chunks } = await this.#read(path, fd, about)
        const isQuiet = size === before.size && sameFileStat(before, statOf(fd))
        if (!isQuiet && this.#hasSidecar(path)) return { kind: 'database' }
        if (!isQuiet && tries < MAX_TRIES) continue
        const mode = before.mode & PERMISSION_BITS
        const stat = isQuiet ? before : undefined
        this.#draft.setFile(path, { mode, mtimeNs: before.mtimeNs, size, chunkSize, chunks }, stat)
        return { kind: 'read' }
      }
    } catch (error) {
      if (isNexusError(error)) throw error
      return unreadable(error, path)
    } finally {
      closeSync(fd)
    }
  }

  /** Reads a copy of our own, which nothing else writes to. */
  async readStaged({ path, localPath, sizeBytes, mode, mtimeNs }: StagedFile, isDatabase: boolean): Promise<void> {
    const fd = openSync(localPath, 'r')
    try {
      const about = { size: sizeBytes, isDatabase, pageSize: isDatabase ? pageSizeOf(fd) : 0 }
      const { size, chunkSize, chunks } = await this.#read(path, fd, about)
      this.#draft.setFile(path, { mode: mode & PERMISSION_BITS, mtimeNs, size, chunkSize, chunks }, undefined)
    } finally {
      closeSync(fd)
    }
  }

  async #read(
    path: string,
    fd: number,
    about: NewFile,
  ): Promise<{ size: number; chunkSize: number; chunks: number[] }> {
    const chunkSize = chunkSizeOf(this.#draft.file(path), about)
    const chunks: number[] = []
    const isKnown = (digest: Buffer): boolean => this.#draft.known(digest) !== undefined
    const steps = chunkSteps(fd, { limit: about.size, chunkSize, isKnown })
    for (;;) {
      if (this.#slices.due) await this.#slices.pause()
      const step = steps.next()
      if (step.done === true) {
        this.readBytes += step.value
        return { size: step.value, chunkSize, chunks }
      }
      const { digest, stored } = step.value
      chunks.push(stored === undefined ? (this.#draft.known(digest) as number) : await this.#draft.add(stored))
    }
  }

  /** Whether a name beside the file says that SQLite is at work on it. */
  #hasSidecar(path: string): boolean {
    return ['-journal', '-wal'].some((suffix) => this.#cursor.lstat(path + suffix)?.isFile() === true)
  }
}

const SQLITE_MAGIC = 'SQLite format 3\0'

/** The size of the pages of a database, by its first bytes; 0 where they aren't those of one. */
function pageSizeOf(fd: number): number {
  const head = Buffer.alloc(18)
  readSync(fd, head, 0, head.length, 0)
  if (head.toString('latin1', 0, 16) !== SQLITE_MAGIC) return 0
  const size = head.readUInt16BE(16)
  return size === 1 ? 65_536 : size
}

function statOf(fd: number): FileStat {
  return toFileStat(fstatSync(fd, { bigint: true }))
}

function unreadable(error: unknown, path: string): ReadOutcome {
  const fault = fileFault(error, OP, path)
  return fault.kind === 'gone' ? fault : { kind: 'unstorable', why: fault.why }
}
