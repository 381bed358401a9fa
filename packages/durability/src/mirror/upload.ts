import { lstatSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { fromSystemError, isNexusError, NexusError, systemCode } from '@nexus/errors'
import { isInvalidKeyError, type ObjectStore } from '@nexus/objectstore'
import type { ManifestEntry } from './manifest.ts'
import { type FileDigest, NOT_A_FILE, type Slices } from '@nexus/host'
import { isRacy, nowNs, sameFileStat, sameInode, toFileStat, type FileStat } from '../tree/tree-stat.ts'
import { copyPrivately } from './upload-copy.ts'
import type { FileDigester } from '../capture/digester.ts'

/** What became of one file. */
export type UploadOutcome =
  | { kind: 'stored'; entry: ManifestEntry }
  /** It is not there any more, or no regular file, or reached through another directory: the tree is to be looked at again. */
  | { kind: 'gone' }
  /** SQLite is writing to it: it is to be copied through SQLite. */
  | { kind: 'database' }
  | { kind: 'unstorable'; why: string }

/** A file of the tree to store. */
export interface LiveFile {
  /** Session-relative. */
  path: string
  /** As the walk saw it. */
  stat: FileStat
  /** When the walk began. */
  lookedNs: bigint
}

/** A copy of our own to store under a path of the tree. */
export interface StagedFile {
  path: string
  localPath: string
  sizeBytes: number
  mode: number
  mtimeNs: bigint
}

export interface UploaderOptions {
  store: ObjectStore
  /** Key prefix of the tree. */
  keyPrefix: string
  sessionDir: string
  /** An existing directory, which private copies share with other files of the snapshot. */
  stagingDir: string
  digester: FileDigester
  slices: Slices
}

/** A digest that was begun before the file's turn, and what the file was before that. */
interface HashedAhead {
  before: FileStat | undefined
  digest: Promise<FileDigest>
}

const PERMISSION_BITS = 0o777
/** The try that stores a private copy. */
const LAST_TRY = 3
// A change that follows within one tick of the file system's clock leaves the time stamp as it was. Hashing more than this
// takes longer than a tick, so a larger file can't be changed unnoticed after it was hashed.
const RACY_COPY_BYTES = 16 * 1024 * 1024

// Later, a change since the walk is likely enough to look again before an upload is wasted.
const FRESH_NS = 1_000_000_000n

/**
 * Stores files so that what the manifest says of them holds for the stored bytes, whatever writes to the file meanwhile:
 * stat, hash and put, stat. A file that changed in between is stored again; at the third try, or at once when
 * time stamps can't show a change, a private copy is stored instead.
 *
 * @see spec 60, Turn-boundary snapshot
 */
export class Uploader {
  readonly #options: UploaderOptions
  readonly #ahead = new Map<string, HashedAhead>()
  #copies = 0
  #realRoot: string | undefined

  constructor(options: UploaderOptions) {
    this.#options = options
  }

  /**
   * Begins to hash a file that will be put soon, when that can be done beside the event loop. The stat that counts for it
   * is taken now.
   */
  hashAhead({ live, staged }: { live?: LiveFile; staged?: StagedFile }): void {
    const { sessionDir, digester, slices } = this.#options
    const path = live?.path ?? staged?.path
    if (path === undefined) return
    const localPath = staged?.localPath ?? `${sessionDir}/${path}`
    const before = live === undefined ? undefined : lookAhead(live, localPath)
    if (live !== undefined && (before === undefined || wantsCopy(before))) return
    const sizeHint = before?.size ?? staged?.sizeBytes ?? 0
    const digest = digester.digestBeside(localPath, { sizeHint, slices })
    if (digest === undefined) return
    digest.catch(() => undefined) // Whoever puts the file gets it.
    this.#ahead.set(path, { before, digest })
  }

  /**
   * Stores a file of the tree. Rejects only when the store fails, the signal fires, or no private copy can be made.
   */
  async putLive({ path, stat }: LiveFile, signal: AbortSignal): Promise<UploadOutcome> {
    const localPath = `${this.#options.sessionDir}/${path}`
    for (let tries = 1; ; tries++) {
      const ahead = this.#takeAhead(path)
      const before = ahead?.before ?? lookAt(localPath)
      if (before === undefined || !this.#isReached(before, stat, path)) return { kind: 'gone' }
      if (ahead === undefined && (tries === LAST_TRY || wantsCopy(before))) {
        return this.#putCopy(path, localPath, tries, signal)
      }
      const [digest, put] = await this.#hashAndPut(path, localPath, { ahead, sizeHint: before.size, signal })
      const after = lookAt(localPath)
      if (after === undefined) return { kind: 'gone' }
      // A driver that trips over a file in motion may well call it the store's fault, so the file is looked at first.
      if (sameFileStat(before, after)) {
        if (put.status === 'rejected') return failedPut(put.reason, digest, tries, path)
        if (digest.status === 'rejected') return unreadable(digest.reason, tries, path)
        if (digest.value.bytes === before.size) return { kind: 'stored', entry: entryOf(before, digest.value.sha256) }
      }
      if (hasSidecar(localPath)) return { kind: 'database' }
    }
  }

  /** Stores a copy of our own, which nothing else writes to. Rejects when the store fails or the signal fires. */
  async putStaged(file: StagedFile, signal: AbortSignal): Promise<UploadOutcome> {
    const ahead = this.#takeAhead(file.path)
    const options = { ahead, sizeHint: file.sizeBytes, signal }
    const [digest, put] = await this.#hashAndPut(file.path, file.localPath, options)
    if (put.status === 'rejected') return refusedKey(put.reason)
    if (digest.status === 'rejected') throw digest.reason
    const { sha256, bytes } = digest.value
    return {
      kind: 'stored',
      entry: { size: bytes, mode: file.mode & PERMISSION_BITS, mtime_ns: String(file.mtimeNs), sha256 },
    }
  }

  /** The digest of a file that isn't being stored, or undefined when it can't be read or changed meanwhile. */
  async digestOf(path: string, stat: FileStat): Promise<string | undefined> {
    const localPath = `${this.#options.sessionDir}/${path}`
    try {
      const { digester, slices } = this.#options
      const ahead = this.#takeAhead(path)?.digest
      const digest = await (ahead ?? digester.digest(localPath, { sizeHint: stat.size, slices }))
      const after = lookAt(localPath)
      return after !== undefined && sameFileStat(stat, after) && digest.bytes === stat.size ? digest.sha256 : undefined
    } catch (error) {
      if (systemCode(error) === undefined) throw error
      return undefined
    }
  }

  async #hashAndPut(
    path: string,
    localPath: string,
    { ahead, sizeHint, signal }: { ahead: HashedAhead | undefined; sizeHint: number; signal: AbortSignal },
  ): Promise<[PromiseSettledResult<FileDigest>, PromiseSettledResult<void>]> {
    const { store, keyPrefix, digester, slices } = this.#options
    const results = await Promise.allSettled([
      ahead?.digest ?? digester.digest(localPath, { sizeHint, slices }),
      store.put(`${keyPrefix}/${path}`, localPath, { signal }),
    ])
    signal.throwIfAborted()
    return results
  }

  #takeAhead(path: string): HashedAhead | undefined {
    const ahead = this.#ahead.get(path)
    this.#ahead.delete(path)
    return ahead
  }

  async #putCopy(path: string, localPath: string, tries: number, signal: AbortSignal): Promise<UploadOutcome> {
    const { store, keyPrefix, stagingDir, slices } = this.#options
    const copyPath = join(stagingDir, `copy-${this.#copies++}`)
    try {
      const { stat, sha256 } = await copyPrivately(localPath, copyPath, slices)
      await store.put(`${keyPrefix}/${path}`, copyPath, { signal })
      return { kind: 'stored', entry: entryOf(stat, sha256) }
    } catch (error) {
      signal.throwIfAborted()
      return isNexusError(error) ? refusedKey(error) : unreadable(error, tries, path)
    }
  }

  // A file replaced since the walk is another inode; so is one that is reached through a link put in a directory's place,
  // and that one is not part of the tree.
  #isReached(now: FileStat, walked: FileStat, path: string): boolean {
    if (sameInode(now, walked)) return true
    const slash = path.lastIndexOf('/')
    const dir = slash === -1 ? '' : path.slice(0, slash)
    try {
      const root = (this.#realRoot ??= realpathSync(this.#options.sessionDir))
      return realpathSync(join(root, dir)) === join(root, dir)
    } catch {
      return false
    }
  }
}

/**
 * What a file is before it is hashed. As long as it is fresh, the walk's own look will do: whatever happened since shows when
 * the file is looked at after its put.
 */
function lookAhead({ stat, lookedNs }: LiveFile, localPath: string): FileStat | undefined {
  const isFresh = nowNs() - lookedNs < FRESH_NS && !isRacy(stat, lookedNs)
  return isFresh ? stat : lookAt(localPath)
}

/** Whether time stamps couldn't show a change of this file between hashing and storing it. */
function wantsCopy(stat: FileStat): boolean {
  return isRacy(stat) && stat.size <= RACY_COPY_BYTES
}

/** Whether a name beside the file says that SQLite is at work on it. */
function hasSidecar(localPath: string): boolean {
  return ['-journal', '-wal'].some((suffix) => lookAt(localPath + suffix) !== undefined)
}

function lookAt(path: string): FileStat | undefined {
  try {
    const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false })
    return stats?.isFile() === true ? toFileStat(stats) : undefined
  } catch {
    return undefined // A directory above it can't be searched any more: another look at the tree will tell.
  }
}

function entryOf(stat: FileStat, sha256: string): ManifestEntry {
  return { size: stat.size, mode: stat.mode & PERMISSION_BITS, mtime_ns: String(stat.mtimeNs), sha256 }
}

function failedPut(
  error: unknown,
  digest: PromiseSettledResult<FileDigest>,
  tries: number,
  path: string,
): UploadOutcome {
  if (digest.status === 'rejected' && isNexusError(error, 'LOCAL_IO')) return unreadable(digest.reason, tries, path)
  return refusedKey(error)
}

/** A key that the store can't hold is this file's problem; whatever else the store says ends the snapshot. */
function refusedKey(error: unknown): UploadOutcome {
  if (!isInvalidKeyError(error)) throw error
  return { kind: 'unstorable', why: `the store can't hold its name: it ${error.reason}` }
}

const GONE = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', NOT_A_FILE])
// The process or the machine has run out of something: no fault of the file, and over in a moment.
const EXHAUSTED = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN'])

function unreadable(error: unknown, tries: number, path: string): UploadOutcome {
  const code = systemCode(error)
  if (code === undefined) throw error
  if (GONE.has(code)) return { kind: 'gone' }
  if (EXHAUSTED.has(code)) throw fromSystemError(error, 'snapshot.upload', path)
  if (tries > 1) {
    // What the store holds at this key now is neither the committed version nor one we have a digest of.
    throw new NexusError('LOCAL_IO', `${path} changed while it was stored, and then could not be read (${code})`, {
      op: 'snapshot.upload',
      key: path,
      cause: error,
    })
  }
  return { kind: 'unstorable', why: `it can't be read (${code})` }
}
