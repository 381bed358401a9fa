import { isEngineTempName, LOCK_FILE } from '@nexus/host'

// Every name inside a session tree is spelled here, and taken apart here. The packages that write the files (journal,
// blobs, storage) know nothing of a session around them and have constants of their own: a test holds the two together.

/** Directories of a session. All but `blobs` are there from its beginning; that one appears with the first blob. */
export const CONTEXT_DIR = 'context'
export const FILES_DIR = 'files'
export const JOURNAL_DIR = 'journal'
export const METADATA_DIR = 'metadata'
export const PLUGINS_DIR = 'plugins'
export const BLOBS_DIR = 'blobs'

/** The directories that a new session begins with. */
export const SESSION_DIRECTORIES: readonly string[] = [CONTEXT_DIR, FILES_DIR, JOURNAL_DIR, METADATA_DIR, PLUGINS_DIR]

/** Every directory at the top of a session that the engine relies on, once it is there. */
export const ENGINE_DIRECTORIES: readonly string[] = [...SESSION_DIRECTORIES, BLOBS_DIR]

/** The conversation, written by the memory plugin. */
export const CONVERSATION_PATH: string = `${CONTEXT_DIR}/conversation.jsonl`
/** What a session knows of itself. */
export const META_PATH: string = `${METADATA_DIR}/session.json`
/** The configuration, byte for byte. */
export const CONFIG_SNAPSHOT_PATH: string = `${METADATA_DIR}/config-snapshot.yaml`
/** One line for each completed turn. */
export const TIMING_PATH: string = `${METADATA_DIR}/timing.jsonl`
export const JOURNAL_HEADER_PATH: string = `${JOURNAL_DIR}/header.json`
/** What the tree itself knows of its commits: on this machine alone, and copied, renamed and removed with the tree. */
export const SESSION_RECORD_PATH = 'session.record.jsonl'
/** The segment of the journal that is appended to. */
export const ACTIVE_SEGMENT_PATH: string = `${JOURNAL_DIR}/events.jsonl`
const DATABASE_FILE = 'store.db'

const SEALED_SEGMENT = /^journal\/events-(\d{3,15})\.jsonl\.zst$/
const BLOB = /^blobs\/([0-9a-f]{2})\/(([0-9a-f]{2})[0-9a-f]{62})\.(bin|meta)$/
// A plugin id has one segment or more, and each is a directory.
const DATABASE = /^plugins\/(?:[^/]+\/)+store\.db$/
const DATABASE_PART = /^(plugins\/(?:[^/]+\/)+store\.db)-(?:wal|shm|journal)$/
// By name alone only where the name leaves no doubt: `files/travel-journal` is text of somebody. What else is a sidecar
// is known from what lies beside it, and decided by the walk.
const SIDECAR = /\.(?:db|db3|sqlite|sqlite3)-(?:wal|shm|journal)$/i
const DATABASE_NAME = /\.(?:db|db3|sqlite|sqlite3)$/i
const STAGING = /^\.(?:hydrating|snapshot)-[A-Za-z0-9][A-Za-z0-9_-]*-[0-9a-f]{16}$/

/** Where the database of a plugin lies. The id is valid, as `validatePluginId` of the storage package says. */
export function databasePath(pluginId: string): string {
  return `${PLUGINS_DIR}/${pluginId}/${DATABASE_FILE}`
}

/** Whether a session-relative path is that of a plugin's database. */
export function isPluginDatabase(path: string): boolean {
  return path.startsWith('plugins/') && DATABASE.test(path)
}

/** Whether the name of a file says that it is a SQLite database. */
export function isDatabaseName(name: string): boolean {
  return DATABASE_NAME.test(name)
}

/** Whether the name of a file says by itself that it is a sidecar of a SQLite database. */
export function isSidecarName(name: string): boolean {
  return SIDECAR.test(name)
}

/** Where a blob lies. */
export function blobPath(sha256: string, part: 'bin' | 'meta'): string {
  return `${BLOBS_DIR}/${sha256.slice(0, 2)}/${sha256}.${part}`
}

/** The digest that the name of a blob's content states; undefined for any other path. */
export function blobDigest(path: string): string | undefined {
  const blob = path.startsWith('blobs/') ? BLOB.exec(path) : null
  return blob !== null && blob[1] === blob[3] && blob[4] === 'bin' ? blob[2] : undefined
}

/** The number of a sealed journal segment; undefined for any other path. */
export function sealedSegmentNumber(path: string): number | undefined {
  const digits = path.startsWith('journal/') ? SEALED_SEGMENT.exec(path)?.[1] : undefined
  return digits === undefined ? undefined : Number(digits)
}

/** Files that never change once they are there. */
export type ImmutableKind = 'blob' | 'blob-meta' | 'segment'

/** Which never-changing kind a session-relative path is, if any. */
export function immutableKind(path: string): ImmutableKind | undefined {
  if (path.startsWith('blobs/')) {
    const blob = BLOB.exec(path)
    if (blob === null || blob[1] !== blob[3]) return undefined
    return blob[4] === 'bin' ? 'blob' : 'blob-meta'
  }
  return sealedSegmentNumber(path) === undefined ? undefined : 'segment'
}

/**
 * Whether a session-relative path (`/`-separated) of a file stays on its machine, in both directions: the lock, SQLite
 * sidecars, staging directories, and the engine's own temporary files.
 */
export function neverCrosses(path: string): boolean {
  return isSidecarName(path) || isLocalPath(path)
}

/** {@link neverCrosses} for a directory or a link, whose name can't make it a sidecar. */
export function isLocalPath(path: string): boolean {
  return path.split('/').some((name, depth) => isLocalName(name, depth === 0))
}

/** Whether a name, of a file or a directory, is the engine's own and stays here with all that lies below. */
export function isLocalName(name: string, atRoot: boolean): boolean {
  return (
    isEngineTempName(name) || (atRoot && (name === LOCK_FILE || name === SESSION_RECORD_PATH || STAGING.test(name)))
  )
}

/**
 * Why a session-relative path is not for plugins and tools to write, as the end of a sentence; undefined where they may.
 * The conversation is the memory plugin's, and everything else in the tree is free.
 */
export function writeRefusal(path: string): string | undefined {
  if (isPluginDatabase(path) || DATABASE_PART.test(path)) return 'reach a database through ctx.storage'
  if (neverCrosses(path)) return 'use another name, for one like this is never stored'
  if (path.startsWith('journal/')) return 'what it holds is written by emitting events'
  if (path.startsWith('blobs/')) return 'put blobs through session.blobStore()'
  if (path === META_PATH) return 'change it through session.saveMeta()'
  if (path === CONFIG_SNAPSHOT_PATH) return 'it is the configuration that this session was begun with'
  return ENGINE_DIRECTORIES.includes(path) ? 'it is a directory' : undefined
}

/** Why a session-relative path can't be read through the workspace; undefined where it can. */
export function readRefusal(path: string): string | undefined {
  // Closing any descriptor of a connected database drops the locks that SQLite holds on it for the whole process.
  if (isPluginDatabase(path)) return 'reach a database through ctx.storage'
  return neverCrosses(path) ? 'it is never stored, and means nothing on another machine' : undefined
}

/**
 * Whether the engine reaches a path by a system path of its own, so that a link there would lead it out of the session:
 * its directories, what it keeps in them, and the directories of plugins.
 */
export function isEnginePlace(path: string): boolean {
  if (ENGINE_DIRECTORIES.includes(path) || path === CONVERSATION_PATH) return true
  if (/^(?:journal|metadata|blobs)\//.test(path)) return true
  return path.startsWith('plugins/') && (path.indexOf('/', PLUGINS_DIR.length + 1) === -1 || isPluginDatabase(path))
}
