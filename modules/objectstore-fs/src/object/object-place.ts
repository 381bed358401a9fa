import { NexusError, quoteKey } from '@nexus/objectstore'
import type { BucketContext } from './bucket-context.ts'
import { errorCode, READ_FLAGS, unless } from '../disk/file-system.ts'
import { ASIDE_DIRECTORY } from '../keys.ts'

/**
 * Where an object lives. Its plain path is `<bucket>/<prefix>/<key>`. Only when objects below the key exist, so that a
 * directory has that path, it lives aside: in `\at-prefix/` next to the directory, under its own name.
 *
 * A key moves through three modes, and never back, which is what makes this safe between processes that know nothing of
 * each other:
 *
 * 1. plain: nothing or a file at the plain path, nothing aside. The file is the object.
 * 2. moving: a file aside. It is the object; a file at the plain path is a leftover.
 * 3. taken: a directory at the plain path. The object is the file aside, if there is one.
 *
 * A file aside is removed only in mode 3, and directories are never removed. So a process that sees a file aside
 * knows that the plain path will not hold the object again, and may clear it away.
 */
export interface ObjectPlace {
  /** The directory of both paths' parents. */
  parent: string
  plain: string
  aside: string
  /** The directory of {@link aside}. */
  asideDirectory: string
}

/** How the last lookup of a place went; see {@link ObjectPlace}. */
export type PlaceMode = 'plain' | 'moving' | 'taken'

export interface OpenObject {
  fd: number
  sizeBytes: number
}

/**
 * The place of an object, or undefined when one of its directories does not exist, so that neither does the object.
 * Symbolic links count as not existing: nothing in a bucket is followed, inside or out.
 */
export function findPlace(context: BucketContext, segments: readonly string[]): ObjectPlace | undefined {
  const parent = findDirectory(context, segments.slice(0, -1))
  return parent === undefined ? undefined : placeIn(parent, segments.at(-1) ?? '')
}

/** The existing directory of these segments, reached without following a link. */
export function findDirectory({ bucket, fs }: BucketContext, segments: readonly string[]): string | undefined {
  let directory = bucket
  for (const segment of segments) {
    directory += `/${segment}`
    if (fs.lstatSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) return undefined
  }
  return directory
}

function placeIn(parent: string, name: string): ObjectPlace {
  const asideDirectory = `${parent}/${ASIDE_DIRECTORY}`
  return { parent, plain: `${parent}/${name}`, aside: `${asideDirectory}/${name}`, asideDirectory }
}

/** Which mode the key is in. The plain path is looked at first: an object on its way leaves it only once it is aside. */
export function modeOf({ fs }: BucketContext, place: ObjectPlace): PlaceMode {
  if (fs.lstatSync(place.plain, { throwIfNoEntry: false })?.isDirectory() === true) return 'taken'
  return fs.lstatSync(place.aside, { throwIfNoEntry: false }) === undefined ? 'plain' : 'moving'
}

/** Opens the object for reading, or gives undefined when there is none. */
export function openObject(context: BucketContext, place: ObjectPlace): OpenObject | undefined {
  const aside = context.fs.lstatSync(place.aside, { throwIfNoEntry: false })
  const plain = aside === undefined ? openFile(context, place.plain) : undefined
  // It may have gone aside between the two looks.
  return plain ?? openFile(context, place.aside)
}

function openFile({ fs }: BucketContext, path: string): OpenObject | undefined {
  const fd = unless(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO'], () => fs.openSync(path, READ_FLAGS))
  if (fd === undefined) return undefined
  try {
    const stat = fs.fstatSync(fd)
    if (stat.isFile()) return { fd, sizeBytes: stat.size }
  } catch (error) {
    fs.closeSync(fd)
    throw error
  }
  fs.closeSync(fd)
  return undefined
}

/** Directories that a call has to sync before its object is durable. */
export interface OwedSyncs {
  directories: Set<string>
  /** Directories whose own entries get durable by that. */
  entered: string[]
}

/** The place of an object that is about to be written, its directories made. */
export function makePlace(context: BucketContext, segments: readonly string[], owed: OwedSyncs): ObjectPlace {
  let parent = context.bucket
  for (const name of segments.slice(0, -1)) parent = makeDirectory(context, parent, name, owed)
  return placeIn(parent, segments.at(-1) ?? '')
}

/** Makes the directory of the objects aside; see {@link ObjectPlace}. */
export function makeAsideDirectory(context: BucketContext, place: ObjectPlace, owed: OwedSyncs): void {
  makeDirectory(context, place.parent, ASIDE_DIRECTORY, owed)
}

/** Ends mode `moving`: clears the plain path, which holds nothing of worth any more, and makes the directory there. */
export function finishMove(context: BucketContext, place: ObjectPlace, owed: OwedSyncs): void {
  makeDirectory(context, place.parent, place.plain.slice(place.parent.length + 1), owed)
}

/** Between two processes each attempt may fail once for each step the other makes; this many are never needed. */
const MAX_ATTEMPTS = 100

function makeDirectory(context: BucketContext, parent: string, name: string, owed: OwedSyncs): string {
  const { fs, directories, directoryMode, failpoint } = context
  const directory = `${parent}/${name}`
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const stat = fs.lstatSync(directory, { throwIfNoEntry: false })
    if (stat?.isDirectory() === true) {
      if (!directories.isDurable(directory)) oweEntry(owed, parent, directory)
      return directory
    }
    if (stat === undefined) {
      directories.forget(directory)
      // Never recursive: a bucket that is gone must fail, not be made again beneath its mount point.
      if (unless(['EEXIST'], () => (fs.mkdirSync(directory, { mode: directoryMode }), true)) === undefined) continue
      failpoint('fs:directory-made')
      oweEntry(owed, parent, directory)
      return directory
    }
    if (!stat.isFile()) throw blocked(directory)
    moveAside(context, parent, name, owed)
  }
  throw blocked(directory)
}

/** Takes the object at a plain path aside and clears the path, so that a directory can be made there. */
function moveAside(context: BucketContext, parent: string, name: string, owed: OwedSyncs): void {
  const { fs, directories, failpoint } = context
  const place = placeIn(parent, name)
  makeAsideDirectory(context, place, owed)
  try {
    // A link, not a rename: whatever is at the plain path stays readable there until it is aside, and what is aside
    // already is the object and must not be replaced.
    fs.linkSync(place.plain, place.aside)
  } catch (error) {
    const code = errorCode(error)
    // Gone, or a directory by now: then there is nothing left to take aside.
    if (code === 'ENOENT' || fs.lstatSync(place.plain, { throwIfNoEntry: false })?.isDirectory() === true) return
    // Over NFS the answer to a link that succeeded may be an error.
    if (code !== 'EEXIST' && fs.lstatSync(place.aside, { throwIfNoEntry: false }) === undefined) {
      throw isLinkless(error) ? noLinks(place.plain, error) : error
    }
  }
  failpoint('fs:moving-aside')
  // Durable aside before it leaves its plain path, or a power loss would take the object.
  directories.syncNow(place.asideDirectory)
  directories.syncNow(parent)
  unlinkFile(context, place.plain)
  failpoint('fs:moved-aside')
}

/** Removes a file and tells whether there was one; a directory in its place is left alone. */
export function unlinkFile({ fs }: BucketContext, path: string): boolean {
  try {
    fs.unlinkSync(path)
    return true
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'EISDIR') return false
    // What POSIX answers for a directory, and every system for a file that may not be removed.
    if (code === 'EPERM' && fs.lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return false
    throw error
  }
}

const LINKLESS = new Set(['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP'])

/** Whether a failed link(2) means that there are no hard links to be had. */
export function isLinkless(error: unknown): boolean {
  return LINKLESS.has(errorCode(error) ?? '')
}

export function noLinks(path: string, cause: unknown): NexusError {
  const message = `${quoteKey(path)} can't be linked: the file system of the bucket has no hard links, or the file is another user's`
  return new NexusError('UNSUPPORTED', message, { op: 'objectstore.put', key: path, cause })
}

function oweEntry(owed: OwedSyncs, parent: string, directory: string): void {
  owed.directories.add(parent)
  owed.entered.push(directory)
}

function blocked(path: string): NexusError {
  const message = `${quoteKey(path)} in the bucket is neither a file nor a directory: remove it`
  return new NexusError('PRECONDITION', message, { op: 'objectstore.put', key: path })
}
