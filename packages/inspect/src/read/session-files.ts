import type { TreeEntry } from './tree-entry.ts'

/** A file of a session, open for reading. */
export interface OpenedFile {
  /** The one who asked closes it. */
  readonly fd: number
  /** Bytes that belong to the file; on the disk there may be more by now. */
  readonly sizeBytes: number
}

/** Where the bytes of a session come from. All of it only reads. */
export interface SessionFiles {
  readonly source: 'local' | 'store'
  /** For people: the directory, or the key prefix. */
  readonly where: string
  /** The commit that is read; undefined for a tree on this disk. */
  readonly generation: number | undefined
  entries(): Promise<TreeEntry[]>
  /** Throws `NOT_FOUND` when there is no such file. */
  openFile(path: string): Promise<OpenedFile>
  /**
   * As {@link openFile}, for a copy of the session that is to be whole: what stands in the WAL of a database is in the file,
   * and a damaged object is not given.
   */
  openSettled(path: string): Promise<OpenedFile>
  /** What is wrong with a file as it lies there; undefined when nothing is, or there is nothing to compare it with. */
  check(path: string): Promise<string | undefined>
  /** A directory that a journal reader can be opened on. */
  journalDir(): Promise<string>
  /** A copy of a database that may be opened, with sidecars beside it if there are any. */
  databaseCopy(path: string): Promise<string>
  close(): Promise<void>
}
