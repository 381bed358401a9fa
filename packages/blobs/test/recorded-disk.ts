import fs from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { BlobFileSystem } from '../src/index.ts'

/** One file operation that reached the disk, paths relative to the recorded root. */
type Operation =
  | { kind: 'mkdir' | 'create'; path: string }
  | { kind: 'write'; file: number; data: Buffer }
  | { kind: 'sync'; file: number }
  | { kind: 'sync-directory'; path: string }
  | { kind: 'rename'; from: string; to: string }
  | { kind: 'unlink'; path: string }
  | { kind: 'mark'; note: string }

/** What the disk may hold after a power loss: paths to contents. */
export type DiskImage = Map<string, Buffer>

type FileCallback = (error: NodeJS.ErrnoException | null) => void

/** Passes calls on to the real disk and remembers what a power loss would decide about. */
export class RecordedDisk {
  readonly #root: string
  readonly operations: Operation[] = []
  readonly #files = new Map<number, { id: number; through: boolean }>()
  readonly #directories = new Map<number, string>()
  readonly #inodes = new Map<string, number>()
  #nextId = 0

  constructor(root: string) {
    this.#root = root
  }

  /** Notes something that the process knows at this point, e.g. that a put resolved. */
  mark(note: string): void {
    this.operations.push({ kind: 'mark', note })
  }

  get fs(): BlobFileSystem {
    // A path through an open directory names what is in it by now.
    const rel = (path: fs.PathLike): string => {
      const [, fd, below] = /^\/proc\/(?:self|\d+)\/fd\/(\d+)\/(.+)$/.exec(String(path)) ?? []
      const directory = this.#directories.get(Number(fd))
      if (directory !== undefined) return join(directory, below as string)
      // Recorded under a name that no fsync of its directory matches, it would look like a loss in the store.
      if (String(path).startsWith('/proc/')) throw new Error(`${String(path)} leads through no recorded directory`)
      return relative(this.#root, String(path)) || '.'
    }
    const push = (operation: Operation): void => void this.operations.push(operation)
    const openSync = (path: fs.PathLike, flags: number, mode?: number): number => {
      const fd = fs.openSync(path, flags, mode)
      if ((flags & fs.constants.O_DIRECTORY) !== 0) {
        this.#directories.set(fd, rel(path))
        return fd
      }
      if ((flags & fs.constants.O_CREAT) !== 0) {
        this.#inodes.set(rel(path), this.#nextId++)
        push({ kind: 'create', path: rel(path) })
      }
      const id = this.#inodes.get(rel(path))
      if (id !== undefined)
        this.#files.set(fd, { id, through: (flags & fs.constants.O_DSYNC) === fs.constants.O_DSYNC })
      return fd
    }
    const wrote = (fd: number, data: Buffer): void => {
      const file = this.#files.get(fd)
      if (file === undefined) return
      push({ kind: 'write', file: file.id, data: Buffer.from(data) })
      if (file.through) push({ kind: 'sync', file: file.id })
    }
    const synced = (fd: number): void => {
      const file = this.#files.get(fd)
      const directory = this.#directories.get(fd)
      if (file !== undefined) push({ kind: 'sync', file: file.id })
      if (directory !== undefined) push({ kind: 'sync-directory', path: directory })
    }
    const closeSync = (fd: number): void => {
      this.#files.delete(fd)
      this.#directories.delete(fd)
      fs.closeSync(fd)
    }
    const recorded = {
      ...fs,
      openSync,
      closeSync,
      writeSync: (fd: number, data: Buffer, offset: number, length: number): number => {
        const written = fs.writeSync(fd, data, offset, length, null)
        wrote(fd, data.subarray(offset, offset + written))
        return written
      },
      write: (
        fd: number,
        data: Buffer,
        offset: number,
        length: number,
        position: null,
        done: (...args: unknown[]) => void,
      ) => {
        fs.write(fd, data, offset, length, position, (error, written) => {
          if (error === null) wrote(fd, data.subarray(offset, offset + written))
          done(error, written)
        })
      },
      fdatasync: (fd: number, done: FileCallback) => fs.fdatasync(fd, (error) => (synced(fd), done(error))),
      fsync: (fd: number, done: FileCallback) => fs.fsync(fd, (error) => (synced(fd), done(error))),
      mkdirSync: (path: string, options: fs.MakeDirectoryOptions | number) => {
        if (typeof options === 'number') {
          fs.mkdirSync(path, options)
          return push({ kind: 'mkdir', path: rel(path) })
        }
        const first = fs.mkdirSync(path, options)
        if (first === undefined) return first
        for (let made = path; made.startsWith(first); made = dirname(made)) push({ kind: 'mkdir', path: rel(made) })
        return first
      },
      renameSync: (from: string, to: string) => {
        fs.renameSync(from, to)
        this.#inodes.set(rel(to), this.#inodes.get(rel(from)) ?? -1)
        push({ kind: 'rename', from: rel(from), to: rel(to) })
      },
      unlinkSync: (path: string) => {
        fs.unlinkSync(path)
        push({ kind: 'unlink', path: rel(path) })
      },
    }
    return recorded as unknown as BlobFileSystem
  }

  /**
   * What the disk may hold when the power goes after the first `count` operations. Of what was never synced, names appear
   * up to `names` of the changes to their directory (0 none, 1 all), and contents up to the share `contents` of the bytes.
   */
  after(count: number, names: number, contents: number): DiskImage {
    const written = new Map<number, Buffer>()
    const durable = new Map<number, number>()
    const pending = new Map<string, ((entries: Map<string, number>) => void)[]>()
    const entries = new Map<string, number>()
    const change = (path: string, apply: (entries: Map<string, number>) => void): void => {
      const list = pending.get(dirname(path)) ?? []
      pending.set(dirname(path), [...list, apply])
    }
    const live = new Map<string, number>()
    let nextId = 0
    for (const operation of this.operations.slice(0, count)) {
      if (operation.kind === 'create') {
        const id = nextId++
        live.set(operation.path, id)
        change(operation.path, (names_) => names_.set(operation.path, id))
      } else if (operation.kind === 'mkdir') {
        change(operation.path, (names_) => names_.set(`${operation.path}/`, -1))
      } else if (operation.kind === 'write') {
        written.set(operation.file, Buffer.concat([written.get(operation.file) ?? Buffer.alloc(0), operation.data]))
      } else if (operation.kind === 'sync') {
        durable.set(operation.file, written.get(operation.file)?.length ?? 0)
      } else if (operation.kind === 'sync-directory') {
        for (const apply of pending.get(operation.path) ?? []) apply(entries)
        pending.delete(operation.path)
      } else if (operation.kind === 'rename') {
        const id = live.get(operation.from) ?? -1
        live.set(operation.to, id)
        change(operation.to, (names_) => {
          names_.delete(operation.from)
          names_.set(operation.to, id)
        })
      } else if (operation.kind === 'unlink') {
        change(operation.path, (names_) => names_.delete(operation.path))
      }
    }
    for (const list of pending.values()) {
      for (const apply of list.slice(0, Math.round(list.length * names))) apply(entries)
    }
    const image: DiskImage = new Map()
    for (const [path, id] of entries) {
      if (path.endsWith('/') || !reachable(path, entries)) continue
      const all = written.get(id) ?? Buffer.alloc(0)
      const safe = durable.get(id) ?? 0
      image.set(path, all.subarray(0, safe + Math.round((all.length - safe) * contents)))
    }
    return image
  }

  /** Puts an image into an empty directory. */
  static restore(image: DiskImage, into: string): void {
    for (const [path, data] of image) {
      fs.mkdirSync(dirname(join(into, path)), { recursive: true })
      fs.writeFileSync(join(into, path), data)
    }
  }
}

/** A file counts only when every directory above it has an entry that survived. */
function reachable(path: string, entries: ReadonlyMap<string, number>): boolean {
  for (let parent = dirname(path); parent !== '.'; parent = dirname(parent)) {
    if (!entries.has(`${parent}/`)) return false
  }
  return true
}
