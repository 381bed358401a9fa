import { systemCode } from '@nexus/errors'
import { explainWay, isSameFile, lookAt, type FileIdentity, type Place, type Sighting } from '../open/place.ts'

/** What is known of the file that a database was opened in. */
export interface OpenedFile {
  /** Undefined once the plugin closed its connection: from then on it may put another file in place. */
  readonly identity: FileIdentity | undefined
  /** Whether the file has ever been seen to hold bytes. */
  readonly hasHeldBytes: boolean
}

/** Content that is not at its place any more. */
export interface LostContent {
  readonly why: string
  /** What is there now is not the database's: SQLite, which deletes sidecars by name, must not even close it. */
  readonly isReplaced: boolean
}

/**
 * Why the content of a database is not at its place any more; undefined while it is. Such a database has nothing to copy,
 * and must not come back as an empty or a foreign one.
 *
 * @throws NexusError when that can't be told: nothing is left out because the disk or a limit was in the way
 */
export function lostContent(place: Place, { identity, hasHeldBytes }: OpenedFile): LostContent | undefined {
  let seen: Sighting
  try {
    seen = lookAt(place)
  } catch (error) {
    const code = systemCode(error)
    if (code === 'ENOENT') return { why: 'its directory was deleted', isReplaced: false }
    if (code === 'ENOTDIR' || code === 'ELOOP') return { why: 'its directory was replaced', isReplaced: true }
    throw explainWay(error, place, `Looking at ${place.path}`)
  }
  if (seen.file === undefined) return { why: 'its file was deleted', isReplaced: false }
  if (!seen.file.isFile()) return { why: 'something else was put in place of its file', isReplaced: true }
  if (seen.file.size === 0n && hasHeldBytes) return { why: 'its file was emptied', isReplaced: false }
  if (identity !== undefined && !isSameFile(seen.file, identity))
    return { why: 'another file was put in its place', isReplaced: true }
  return undefined
}
