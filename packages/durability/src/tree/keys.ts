import { validateSessionId } from './session-id.ts'

/** Where one session lives in the store. All of them are siblings, so that none hydrates into the tree. */
export interface SessionKeys {
  /** Prefix of the tree: `sessions/<id>`. */
  readonly tree: string
  /** Prefix that holds the manifest alone, so that a backend without `get` can still read it. */
  readonly manifestPrefix: string
  readonly manifest: string
  /** The commit marker, for people: `sessions/<id>.snapshot.json`. */
  readonly marker: string
  readonly ownerPrefix: string
  readonly owner: string
}

/** File name of the manifest below {@link SessionKeys.manifestPrefix}. */
export const MANIFEST_FILE = 'manifest.json'

/**
 * The keys of a session.
 *
 * @param sessionId refused with `INVALID_ARGUMENT` when it breaks the rules of session ids, before any key is built
 * @see spec 60, Keys
 */
export function sessionKeys(sessionId: string): SessionKeys {
  validateSessionId(sessionId)
  const tree = `sessions/${sessionId}`
  return {
    tree,
    manifestPrefix: `${tree}.manifest`,
    manifest: `${tree}.manifest/${MANIFEST_FILE}`,
    marker: `${tree}.snapshot.json`,
    ownerPrefix: `${tree}.owner`,
    owner: `${tree}.owner/owner.json`,
  }
}

const SESSION_LOCK = 'session.lock'
// Whatever writes into a tree through a temporary name (workspace, journal, blobs, drivers) takes one that begins so.
const TEMP_PREFIX = '.nexus-tmp-'
// By name alone only where the name leaves no doubt: `files/travel-journal` is somebody's text. What else is a sidecar
// is known from what lies beside it, and decided by the walk.
const SQLITE_SIDECAR = /\.(?:db|db3|sqlite|sqlite3)-(?:wal|shm|journal)$/i
const STAGING_NAME = /^\.(?:hydrating|snapshot)-[A-Za-z0-9][A-Za-z0-9_-]*-[0-9a-f]{16}$/

/**
 * Whether a session-relative path (`/`-separated) of a file stays on its machine, in both directions: the lock, SQLite
 * sidecars, staging directories, and the engine's own temporary files.
 *
 * @see spec 60, Keys
 */
export function neverCrosses(relPath: string): boolean {
  return isSidecarName(relPath) || isLocalPath(relPath)
}

/** {@link neverCrosses} for a directory or a link, whose name can't make it a sidecar. */
export function isLocalPath(relPath: string): boolean {
  return relPath.split('/').some((name, depth) => isLocalName(name, depth === 0))
}

/** Whether a name, of a file or a directory, is the engine's own and stays here with all that lies below. */
export function isLocalName(name: string, atRoot: boolean): boolean {
  return name.startsWith(TEMP_PREFIX) || (atRoot && (name === SESSION_LOCK || STAGING_NAME.test(name)))
}

/** Whether the name of a file says by itself that it is a SQLite sidecar. */
export function isSidecarName(name: string): boolean {
  return SQLITE_SIDECAR.test(name)
}
