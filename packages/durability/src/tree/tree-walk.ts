import nodeFs, { type BigIntStats } from 'node:fs'
import { fromSystemError } from '@nexus/errors'
import { keyFault } from '@nexus/objectstore'
import { isLocalName, isSidecarName } from './names.ts'
import { Slices, type TreeCursor, fileFault } from '@nexus/host'
import { isRacy, sameDirectory, sameInode, toFileStat, type FileStat } from './tree-stat.ts'

/** Why a path can't be stored. */
export interface Unstorable {
  /** Session-relative; bytes that aren't UTF-8 are written as `\xHH`. */
  path: string
  why: string
  /** A directory: everything below it can't be stored either. */
  tree: boolean
}

/** A session tree as it was found. Paths are session-relative with `/`. */
export interface WalkedTree {
  files: Map<string, FileStat>
  /** Modes of all directories, the session's own left out. */
  dirs: Map<string, number>
  /** Link texts. */
  links: Map<string, string>
  /** Sockets, FIFOs and devices, which have no content to store. */
  specials: string[]
  /** Files that are SQLite sidecars by their name: left out of `files`. */
  sidecars: string[]
  unstorable: Unstorable[]
}

/** The part of `node:fs` the walk uses; tests hand in one that fails or races. */
export type WalkFs = Pick<typeof nodeFs, 'lstatSync' | 'readdirSync' | 'readlinkSync'>

export interface WalkOptions {
  /** Bytes of the longest path that can be a key. */
  maxPathBytes: number
  slices?: Slices
  fs?: WalkFs
}

/** Looks at the tree, the first included, before a directory that keeps changing is taken as it was last seen. */
const MAX_LOOKS = 3
const OP = 'snapshot.walk'
const REPLACEMENT = '\uFFFD'

interface DirRecord {
  stat: FileStat
  /** All names, kept only where the time stamp alone can't show a change. */
  names: string[] | undefined
  /** Names with a real replacement character, once a name was seen that has one or is not UTF-8. */
  decoded: Set<string> | undefined
  files: Map<string, FileStat>
  links: Map<string, string>
  dirs: Map<string, FileStat>
  specials: string[]
  sidecars: string[]
  unstorable: Unstorable[]
  /** A name was listed and then gone. */
  lost: boolean
}

interface Changed {
  path: string
  record: DirRecord
  /** Undefined when it is no directory any more. */
  stat: FileStat | undefined
}

/**
 * Walks a session tree with lstat, in synchronous slices: a promise per file would make it several times slower. Links are
 * recorded and never followed. Names and texts of links are read through held directories, so that none comes from
 * elsewhere; sizes and times are asked for by path, which is twice as fast and tells nothing of what is inside.
 *
 * A rename during the walk can hide a file from both directories, with nothing that looks amiss in either. So each
 * directory is looked at again after the walk, and read again when it changed, three times at most.
 *
 * @see docs/concepts/durability.md
 */
export class TreeWalker {
  readonly #root: string
  readonly #fs: WalkFs
  readonly #slices: Slices
  readonly #maxPathBytes: number
  readonly #dirs = new Map<string, DirRecord>()
  readonly #cursor: TreeCursor

  constructor(cursor: TreeCursor, options: WalkOptions) {
    this.#cursor = cursor
    this.#root = cursor.root
    this.#fs = options.fs ?? nodeFs
    this.#slices = options.slices ?? new Slices()
    this.#maxPathBytes = options.maxPathBytes
  }

  /** @throws NexusError when the session directory itself can't be read, or the machine has run out of something */
  async walk(): Promise<WalkedTree> {
    this.#dirs.clear()
    const stat = this.#statDirectory('')
    if (stat === undefined) throw this.#rootGone()
    await this.#read('', stat)
    await this.#settle(MAX_LOOKS - 1)
    return this.#tree()
  }

  /** Looks at a walked tree again, for a caller that found something gone. Only what changed is read. */
  async lookAgain(): Promise<WalkedTree> {
    await this.#settle(MAX_LOOKS)
    return this.#tree()
  }

  async #settle(looks: number): Promise<void> {
    for (let look = 0; ; look++) {
      const changed = await this.#findChanged()
      if (changed.length === 0) return
      if (look === looks) return this.#dropReplaced(changed)
      for (const { path, record, stat } of changed) {
        // Its parent was read again just now, and it with it.
        if (this.#dirs.get(path) !== record) continue
        if (stat === undefined) this.#forget(path)
        else await this.#read(path, stat)
      }
    }
  }

  /** Directories that don't look as they did when they were read. */
  async #findChanged(): Promise<Changed[]> {
    const changed: Changed[] = []
    this.#cursor.reset()
    for (const [path, record] of this.#dirs) {
      if (this.#slices.due) await this.#slices.pause()
      const stat = this.#statDirectory(path)
      if (path === '' && (stat === undefined || !sameInode(stat, record.stat))) throw this.#rootGone()
      if (stat === undefined || record.lost || !sameDirectory(stat, record.stat) || this.#namesChanged(path, record)) {
        changed.push({ path, record, stat })
      } else if (!isRacy(stat)) record.names = undefined
    }
    return changed
  }

  #statDirectory(path: string): FileStat | undefined {
    try {
      const stats = this.#lstat(path)
      return stats?.isDirectory() === true ? toFileStat(stats) : undefined
    } catch (error) {
      fileFault(error, OP, path)
      return undefined // Its parent can't be searched any more, which changed the parent: that one is read again.
    }
  }

  #rootGone(): Error {
    const gone = Object.assign(new Error('the directory is gone or another one'), { code: 'ENOENT' })
    return fromSystemError(gone, OP, this.#root)
  }

  #namesChanged(path: string, record: DirRecord): boolean {
    if (record.names === undefined) return false
    let names: string[] | undefined
    try {
      names = this.#names(path, record.stat)
    } catch (error) {
      fileFault(error, OP, path)
      return true
    }
    if (names === undefined || names.length !== record.names.length) return true
    const before = new Set(record.names)
    return names.some((name) => !before.has(name))
  }

  // Nothing more is read, but what was read through a path that is another directory now, or a link, must not be trusted.
  #dropReplaced(changed: readonly Changed[]): void {
    for (const { path, record, stat } of changed) {
      if (stat === undefined || !sameInode(stat, record.stat)) this.#forget(path)
    }
  }

  #forget(path: string): void {
    const stack = [path]
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      for (const name of this.#dirs.get(next)?.dirs.keys() ?? []) stack.push(below(next, name))
      this.#dirs.delete(next)
    }
    const slash = path.lastIndexOf('/')
    this.#dirs.get(slash === -1 ? '' : path.slice(0, slash))?.dirs.delete(path.slice(slash + 1))
  }

  /** Reads a directory anew, and below it what is new there. */
  async #read(from: string, stat: FileStat): Promise<void> {
    this.#cursor.reset()
    const stack: [string, FileStat][] = [[from, stat]]
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const [path, dirStat] = next
      const before = this.#dirs.get(path)
      const record = await this.#readOne(path, dirStat)
      this.#dirs.set(path, record)
      for (const name of before?.dirs.keys() ?? []) if (!record.dirs.has(name)) this.#forget(below(path, name))
      for (const [name, subStat] of record.dirs) {
        const subPath = below(path, name)
        const known = this.#dirs.get(subPath)
        if (known === undefined || !sameInode(known.stat, subStat)) {
          this.#forgetBelow(subPath)
          stack.push([subPath, subStat])
        }
      }
    }
  }

  #forgetBelow(path: string): void {
    for (const name of this.#dirs.get(path)?.dirs.keys() ?? []) this.#forget(below(path, name))
    this.#dirs.delete(path)
  }

  async #readOne(path: string, stat: FileStat): Promise<DirRecord> {
    const record: DirRecord = {
      stat,
      names: undefined,
      decoded: undefined,
      files: new Map(),
      links: new Map(),
      dirs: new Map(),
      specials: [],
      sidecars: [],
      unstorable: [],
      lost: false,
    }
    let names: string[] | undefined
    try {
      names = this.#names(path, stat)
    } catch (error) {
      const fault = fileFault(error, OP, path)
      if (path === '') throw fromSystemError(error, OP, this.#root)
      if (fault.kind === 'unreadable') record.unstorable.push({ path, why: fault.why, tree: true })
      return record
    }
    if (names === undefined) record.lost = true
    if (isRacy(stat)) record.names = names
    for (const name of names ?? []) {
      if (this.#slices.due) await this.#slices.pause()
      this.#look(path, name, record)
    }
    return record
  }

  /**
   * The names in a directory, or undefined when it is gone or another one than was looked at. Names that aren't UTF-8
   * contain the replacement character.
   */
  #names(path: string, { ino, dev }: FileStat): string[] | undefined {
    try {
      const held = this.#cursor.statDirectory(path)
      if (held.ino !== ino || held.dev !== dev) return undefined
      return this.#fs.readdirSync(this.#cursor.directory(path))
    } catch (error) {
      if (fileFault(error, OP, path).kind === 'gone') return undefined
      throw error
    }
  }

  #look(dir: string, name: string, record: DirRecord): void {
    if (isLocalName(name, dir === '')) return
    const path = below(dir, name)
    // A real U+FFFD in a name is rare; a byte that isn't UTF-8 reads the same. Only the bytes tell, and there may be both.
    if (name.includes(REPLACEMENT) && !this.#isInBytes(dir, name, record)) return
    const fault = keyFault(name)
    if (fault !== undefined) {
      record.unstorable.push({ path, why: `its name ${fault}`, tree: true })
      return
    }
    try {
      const stats = this.#lstat(path)
      if (stats === undefined) record.lost = true
      else this.#add(path, name, stats, record)
    } catch (error) {
      const found = fileFault(error, OP, path)
      if (found.kind === 'gone') record.lost = true
      else record.unstorable.push({ path, why: found.why, tree: true })
    }
  }

  #add(path: string, name: string, stats: BigIntStats, record: DirRecord): void {
    if (stats.isFile()) {
      if (isSidecarName(name)) record.sidecars.push(path)
      else if (this.#isTooLong(path)) {
        const why = `its path is longer than ${this.#maxPathBytes} bytes, the most that every store can hold`
        record.unstorable.push({ path, why, tree: false })
      } else record.files.set(name, toFileStat(stats))
    } else if (stats.isDirectory()) record.dirs.set(name, toFileStat(stats))
    else if (stats.isSymbolicLink()) this.#addLink(path, name, record)
    else record.specials.push(path)
  }

  #addLink(path: string, name: string, record: DirRecord): void {
    const text = this.#fs.readlinkSync(this.#cursor.place(path), { encoding: 'buffer' })
    const target = text.toString()
    if (target.includes(REPLACEMENT) && !Buffer.from(target).equals(text)) {
      record.unstorable.push({ path, why: 'it is a link whose text is not UTF-8', tree: false })
    } else record.links.set(name, target)
  }

  /** Whether the directory holds just this name. Names that are no text at all join the record, once. */
  #isInBytes(dir: string, name: string, record: DirRecord): boolean {
    record.decoded ??= this.#decodeNames(dir, record)
    return record.decoded.has(name)
  }

  #decodeNames(dir: string, record: DirRecord): Set<string> {
    const decoded = new Set<string>()
    for (const raw of this.#rawNames(dir)) {
      const name = raw.toString()
      if (!name.includes(REPLACEMENT)) continue
      if (raw.equals(Buffer.from(name))) decoded.add(name)
      else record.unstorable.push({ path: below(dir, escapeBytes(raw)), why: 'its name is not UTF-8', tree: true })
    }
    return decoded
  }

  #rawNames(dir: string): Buffer[] {
    try {
      return this.#fs.readdirSync(this.#cursor.directory(dir), { encoding: 'buffer' })
    } catch (error) {
      fileFault(error, OP, dir)
      return []
    }
  }

  #isTooLong(path: string): boolean {
    return path.length * 3 > this.#maxPathBytes && Buffer.byteLength(path) > this.#maxPathBytes
  }

  #lstat(path: string): BigIntStats | undefined {
    return this.#fs.lstatSync(this.#absolute(path), { bigint: true, throwIfNoEntry: false })
  }

  #absolute(path: string): string {
    return path === '' ? this.#root : `${this.#root}/${path}`
  }

  async #tree(): Promise<WalkedTree> {
    const tree: WalkedTree = {
      files: new Map(),
      dirs: new Map(),
      links: new Map(),
      specials: [],
      sidecars: [],
      unstorable: [],
    }
    for (const [path, record] of this.#dirs) {
      if (this.#slices.due) await this.#slices.pause()
      if (path !== '') tree.dirs.set(path, record.stat.mode)
      for (const [name, stat] of record.files) tree.files.set(below(path, name), stat)
      for (const [name, target] of record.links) tree.links.set(below(path, name), target)
      tree.specials.push(...record.specials)
      tree.sidecars.push(...record.sidecars)
      tree.unstorable.push(...record.unstorable)
    }
    return tree
  }
}

function below(dir: string, name: string): string {
  return dir === '' ? name : `${dir}/${name}`
}

function escapeBytes(raw: Buffer): string {
  let text = ''
  for (const byte of raw) {
    text +=
      byte >= 0x20 && byte < 0x7f && byte !== 0x5c
        ? String.fromCharCode(byte)
        : `\\x${byte.toString(16).padStart(2, '0')}`
  }
  return text
}
