import { NexusError } from '@nexus/objectstore'
import type { BucketContext } from './bucket-context.ts'
import { errorCode } from '../disk/file-system.ts'
import {
  isLinkless,
  makeAsideDirectory,
  makePlace,
  modeOf,
  noLinks,
  unlinkFile,
  type ObjectPlace,
  type OwedSyncs,
} from './object-place.ts'
import type { StoredTemp } from './stored-temp.ts'

/** Another process would have to get in between each time; this many are never needed. */
const MAX_ATTEMPTS = 100

/**
 * Gives the temp file the object's name, and the path it has now. Undefined when it came to nothing because the key was
 * being taken aside at that moment: the file may be gone, and the put has to be made again, aside.
 */
export function placeTemp(
  context: BucketContext,
  temp: StoredTemp,
  segments: readonly string[],
  owed: OwedSyncs,
): string | undefined {
  const { fs } = context
  const place = makePlace(context, segments, owed)
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    if (modeOf(context, place) !== 'plain') {
      makeAsideDirectory(context, place, owed)
      rename(context, temp, place.aside)
      owed.directories.add(place.asideDirectory)
      return place.aside
    }
    try {
      rename(context, temp, place.plain)
    } catch (error) {
      // A directory has got there first.
      if (errorCode(error) === 'EISDIR' || errorCode(error) === 'ENOTEMPTY') continue
      throw error
    }
    owed.directories.add(place.parent)
    // Someone may have begun to take the key aside after we looked: then what we put at the plain path is a leftover.
    const aside = fs.lstatSync(place.aside, { throwIfNoEntry: false, bigint: true })
    return aside === undefined || aside.ino === temp.ino ? place.plain : undefined
  }
  throw contended(segments)
}

function rename({ fs }: BucketContext, temp: StoredTemp, to: string): void {
  try {
    fs.renameSync(temp.path, to)
  } catch (error) {
    // Over NFS a rename that was sent twice finds its source gone the second time.
    const moved = errorCode(error) === 'ENOENT' && fs.lstatSync(to, { throwIfNoEntry: false, bigint: true })
    if (typeof moved === 'object' && moved.ino === temp.ino) return
    throw error
  }
}

/**
 * Gives the temp file the object's name if that is free, and keeps it; false when it was taken. The caller discards the
 * temp file either way.
 *
 * @throws NexusError `OUTCOME_UNKNOWN` when it can't be told
 */
export function linkTemp(
  context: BucketContext,
  temp: StoredTemp,
  segments: readonly string[],
  owed: OwedSyncs,
): boolean {
  const place = makePlace(context, segments, owed)
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const mode = modeOf(context, place)
    if (mode === 'moving') return false
    if (mode === 'taken') {
      makeAsideDirectory(context, place, owed)
      owed.directories.add(place.asideDirectory)
      return link(context, temp, place.aside)
    }
    owed.directories.add(place.parent)
    if (link(context, temp, place.plain)) return confirmCreated(context, temp, place)
    const stat = context.fs.lstatSync(place.plain, { throwIfNoEntry: false })
    if (stat === undefined || stat.isFile()) return false
    if (!stat.isDirectory()) {
      const message = `${place.plain} in the bucket is neither a file nor a directory: remove it`
      throw new NexusError('PRECONDITION', message, { op: 'objectstore.putIfAbsent', key: place.plain })
    }
  }
  throw contended(segments)
}

/**
 * The link at the plain path succeeded, which is a creation unless the object was being taken aside at that moment and the
 * path was free for an instant. Then it can't be told whether we were before or after, and nothing is claimed.
 */
function confirmCreated(context: BucketContext, temp: StoredTemp, place: ObjectPlace): boolean {
  const aside = context.fs.lstatSync(place.aside, { throwIfNoEntry: false, bigint: true })
  const plain = context.fs.lstatSync(place.plain, { throwIfNoEntry: false, bigint: true })
  if (aside === undefined && plain?.isDirectory() !== true) return true
  if (aside?.ino === temp.ino) return true
  // With a file aside the plain path holds leftovers only, ours too.
  if (aside !== undefined) unlinkFile(context, place.plain)
  throw unknownOutcome(place.plain, 'the key was being moved at that moment')
}

/** Failures of link(2) after which nothing can have happened. */
const REFUSED = new Set([
  'ENOENT',
  'ENOTDIR',
  'EACCES',
  'ENOSPC',
  'EDQUOT',
  'EROFS',
  'ENAMETOOLONG',
  'EMLINK',
  'EXDEV',
  'ELOOP',
])

/** Links the temp file to a name; false when the name was taken. */
function link({ fs }: BucketContext, temp: StoredTemp, to: string): boolean {
  try {
    fs.linkSync(temp.path, to)
    return true
  } catch (error) {
    let links: number
    try {
      links = fs.lstatSync(temp.path).nlink
    } catch (cause) {
      throw unknownOutcome(to, 'the answer was an error, and the file can not be looked at', cause)
    }
    // Over NFS a link that was sent twice fails the second time although it is there: the count tells.
    if (links > 1) return true
    const code = errorCode(error) ?? ''
    if (code === 'EEXIST') return false
    if (isLinkless(error)) throw noLinks(to, error)
    if (REFUSED.has(code)) throw error
    throw unknownOutcome(to, 'the answer was lost', error)
  }
}

function unknownOutcome(path: string, why: string, cause?: unknown): NexusError {
  const message = `it is not known whether ${path} was created: ${why}; read it back and compare`
  return new NexusError('OUTCOME_UNKNOWN', message, { op: 'objectstore.putIfAbsent', cause })
}

export function contended(segments: readonly string[]): NexusError {
  const message = `${segments.join('/')} kept changing under ${MAX_ATTEMPTS} attempts`
  return new NexusError('UNAVAILABLE', message, { op: 'objectstore.put' })
}
