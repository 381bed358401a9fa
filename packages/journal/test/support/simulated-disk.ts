import { dirname } from 'node:path'
import type { JournalFs } from '../../src/index.ts'
import { systemError } from './faulty-fs.ts'

type Change = { at: number; bytes: Buffer } | { size: number }
type DirChange = { name: string; inode: Inode | undefined }

let inodes = 0

/** A file or directory. What the disk holds, and what only the kernel knows, are kept apart. */
class Inode {
  readonly number: number = ++inodes
  readonly isDir: boolean
  /** As the kernel sees it. */
  data: Buffer = Buffer.alloc(0)
  entries: Map<string, Inode> = new Map()
  /** As it is on the disk. */
  durableData: Buffer = Buffer.alloc(0)
  durableEntries: Map<string, Inode> = new Map()
  /** What a sync would bring to the disk. */
  pending: Change[] = []
  pendingEntries: DirChange[] = []

  constructor(isDir: boolean) {
    this.isDir = isDir
  }
}

interface Descriptor {
  inode: Inode
  position: number
  append: boolean
}

/** How much of what was never synced is on the disk after a power loss. */
export interface PowerLoss {
  /** A number from 0 up to and including `most`: how many pending changes arrived. */
  arrived(most: number): number
  /** A number from 0 up to and including `most`: how many bytes of the change that was being written arrived. */
  torn(most: number): number
}

/** Nothing that was never synced arrived. */
export const nothingArrived: PowerLoss = { arrived: () => 0, torn: () => 0 }

/**
 * A file system in memory that knows what a power loss takes: everything since the last sync of that file, or of the
 * directory that holds the name. Changes of one file, and of one directory, arrive in order; nothing else is promised.
 *
 * A sync that fails drops the pending changes: no later sync brings them to the disk. They may read well for a while.
 */
export class SimulatedDisk {
  readonly fs: JournalFs
  /** Asked before each sync: `dropped` makes it fail, `forgotten` makes what was written read as zeros, too. */
  failSync: (path: string) => 'dropped' | 'forgotten' | undefined = () => undefined
  /** Called before each change or sync, with its number from 1. */
  beforeStep: (step: number) => void = () => undefined
  #steps = 0
  #fds = 100
  readonly #root: Inode
  readonly #open = new Map<number, Descriptor & { path: string }>()

  constructor(root?: Inode) {
    this.#root = root ?? this.#inode(true)
    this.fs = this.#functions() as unknown as JournalFs
  }

  get openFiles(): number {
    return this.#open.size
  }

  /** The disk as another machine finds it: what was synced, and what of the rest `loss` lets arrive. */
  afterPowerLoss(loss: PowerLoss): SimulatedDisk {
    return new SimulatedDisk(survivor(this.#root, loss, new Map()))
  }

  /** The disk and the kernel as the next process finds them when this one dies. */
  afterKill(): SimulatedDisk {
    return new SimulatedDisk(copyOf(this.#root, new Map()))
  }

  #inode(isDir: boolean): Inode {
    return new Inode(isDir)
  }

  #step(): void {
    this.beforeStep(++this.#steps)
  }

  #find(path: string): Inode | undefined {
    let inode: Inode | undefined = this.#root
    for (const part of path.split('/').filter(Boolean)) inode = inode?.entries.get(part)
    return inode
  }

  #parent(path: string): { dir: Inode; name: string } {
    const dir = this.#find(dirname(path))
    if (!dir?.isDir) throw systemError('ENOENT')
    return { dir, name: path.slice(path.lastIndexOf('/') + 1) }
  }

  #link(path: string, inode: Inode | undefined): void {
    const { dir, name } = this.#parent(path)
    if (inode) dir.entries.set(name, inode)
    else dir.entries.delete(name)
    dir.pendingEntries.push({ name, inode })
  }

  #descriptor(fd: number): Descriptor & { path: string } {
    const descriptor = this.#open.get(fd)
    if (!descriptor) throw systemError('EBADF')
    return descriptor
  }

  #openFile(path: string, flags: string): number {
    let inode = this.#find(path)
    if (inode && flags.includes('x')) throw systemError('EEXIST')
    if (!inode) {
      if (flags.startsWith('r')) throw systemError('ENOENT')
      this.#step()
      inode = this.#inode(false)
      this.#link(path, inode)
    }
    if (flags.startsWith('w') && inode.data.length > 0) this.#truncate(inode, 0)
    this.#open.set(++this.#fds, { inode, position: 0, append: flags.startsWith('a'), path })
    return this.#fds
  }

  #truncate(inode: Inode, size: number): void {
    this.#step()
    apply(inode, { size })
    inode.pending.push({ size })
  }

  #write(fd: number, bytes: Uint8Array, offset: number, length: number): number {
    this.#step()
    const descriptor = this.#descriptor(fd)
    const { inode } = descriptor
    const at = descriptor.append ? inode.data.length : descriptor.position
    const change = { at, bytes: Buffer.from(bytes.subarray(offset, offset + length)) }
    apply(inode, change)
    inode.pending.push(change)
    descriptor.position = at + length
    return length
  }

  /** Brings the oldest `changes` of a file to the disk. What was written after the sync began is not covered by it. */
  #sync(fd: number, changes = this.#descriptor(fd).inode.pending.length): void {
    this.#step()
    const { inode, path } = this.#descriptor(fd)
    const covered = inode.pending.splice(0, changes)
    const failure = this.failSync(path)
    if (failure === 'forgotten')
      inode.data = Buffer.concat([inode.durableData, Buffer.alloc(inode.data.length)]).subarray(0, inode.data.length)
    if (failure) throw systemError('EIO')
    for (const change of covered) applyDurable(inode, change)
    for (const { name, inode: entry } of inode.pendingEntries) setEntry(inode.durableEntries, name, entry)
    inode.pendingEntries = []
  }

  #functions(): Record<keyof JournalFs, (...args: never[]) => unknown> {
    const later = (fd: number, callback: (error: Error | null) => void): void => {
      const changes = this.#descriptor(fd).inode.pending.length
      setImmediate(() => {
        let failure: Error | null = null
        try {
          this.#sync(fd, changes)
        } catch (error) {
          failure = error as Error
        }
        callback(failure)
      })
    }
    return {
      openSync: (path: string, flags: string) => this.#openFile(path, flags),
      closeSync: (fd: number) => {
        if (!this.#open.delete(fd)) throw systemError('EBADF')
      },
      readSync: (fd: number, buffer: Buffer, offset: number, length: number, position: number) =>
        this.#descriptor(fd).inode.data.copy(buffer, offset, position, position + length),
      writeSync: (fd: number, bytes: Uint8Array, offset = 0, length = bytes.length - offset) =>
        this.#write(fd, bytes, offset, length),
      ftruncateSync: (fd: number, size = 0) => this.#truncate(this.#descriptor(fd).inode, size),
      fstatSync: (fd: number) => {
        const { inode } = this.#descriptor(fd)
        return { size: inode.data.length, ino: inode.number, dev: 1 }
      },
      fsyncSync: (fd: number) => this.#sync(fd),
      fdatasync: later,
      fsync: later,
      renameSync: (from: string, to: string) => {
        const inode = this.#find(from)
        if (!inode) throw systemError('ENOENT')
        this.#step()
        this.#link(to, inode)
        this.#link(from, undefined)
      },
      unlinkSync: (path: string) => {
        if (!this.#find(path)) throw systemError('ENOENT')
        this.#step()
        this.#link(path, undefined)
      },
      linkSync: (from: string, to: string) => {
        if (this.#find(to)) throw systemError('EEXIST')
        this.#step()
        this.#link(to, this.#find(from))
      },
      readdirSync: (path: string) => {
        const dir = this.#find(path)
        if (!dir) throw systemError('ENOENT')
        return [...dir.entries.keys()]
      },
      mkdirSync: (path: string) => this.#makeDir(path),
      rmSync: (path: string) => {
        if (!this.#find(path)) return
        this.#step()
        this.#link(path, undefined)
      },
    }
  }

  #makeDir(path: string): string | undefined {
    if (this.#find(path)) return undefined
    const created = dirname(path) === '/' ? undefined : this.#makeDir(dirname(path))
    this.#step()
    this.#link(path, this.#inode(true))
    return created ?? path
  }
}

function setEntry(entries: Map<string, Inode>, name: string, inode: Inode | undefined): void {
  if (inode) entries.set(name, inode)
  else entries.delete(name)
}

function changed(data: Buffer, change: Change): Buffer {
  if ('size' in change) return Buffer.concat([data, Buffer.alloc(change.size)]).subarray(0, change.size)
  const end = change.at + change.bytes.length
  const result = Buffer.alloc(Math.max(data.length, end))
  data.copy(result)
  change.bytes.copy(result, change.at)
  return result
}

function apply(inode: Inode, change: Change): void {
  inode.data = changed(inode.data, change)
}

function applyDurable(inode: Inode, change: Change): void {
  inode.durableData = changed(inode.durableData, change)
}

function copyOf(inode: Inode, known: Map<Inode, Inode>): Inode {
  const existing = known.get(inode)
  if (existing) return existing
  const copy = new Inode(inode.isDir)
  known.set(inode, copy)
  const copyEntries = (entries: Map<string, Inode>): Map<string, Inode> =>
    new Map([...entries].map(([name, entry]) => [name, copyOf(entry, known)]))
  copy.data = inode.data
  copy.durableData = inode.durableData
  copy.pending = [...inode.pending]
  copy.entries = copyEntries(inode.entries)
  copy.durableEntries = copyEntries(inode.durableEntries)
  copy.pendingEntries = inode.pendingEntries.map(({ name, inode: entry }) => ({
    name,
    inode: entry && copyOf(entry, known),
  }))
  return copy
}

function survivor(inode: Inode, loss: PowerLoss, known: Map<Inode, Inode>): Inode {
  const existing = known.get(inode)
  if (existing) return existing
  const result = new Inode(inode.isDir)
  known.set(inode, result)
  result.data = result.durableData = survivingData(inode, loss)
  const entries = new Map(inode.durableEntries)
  for (const { name, inode: entry } of inode.pendingEntries.slice(0, loss.arrived(inode.pendingEntries.length))) {
    setEntry(entries, name, entry)
  }
  for (const [name, entry] of entries) result.entries.set(name, survivor(entry, loss, known))
  result.durableEntries = new Map(result.entries)
  return result
}

function survivingData(inode: Inode, loss: PowerLoss): Buffer {
  let data = inode.durableData
  const arrived = loss.arrived(inode.pending.length)
  for (const change of inode.pending.slice(0, arrived)) data = changed(data, change)
  const next = inode.pending[arrived]
  if (!next || 'size' in next) return data
  const torn = loss.torn(next.bytes.length)
  if (torn === 0) return data
  // The size may arrive before the bytes: what was not written reads as zeros.
  const bytes = Buffer.concat([next.bytes.subarray(0, torn), Buffer.alloc(loss.torn(next.bytes.length - torn))])
  return changed(data, { at: next.at, bytes })
}
