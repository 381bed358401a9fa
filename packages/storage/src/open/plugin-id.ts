import { NexusError } from '@nexus/errors'

const SEGMENT = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/
const DEVICE_NAME = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)/i
// A plugin `a/store.db` would need a directory where plugin `a` has its database or one of its sidecars.
const DATABASE_NAME = /^store\.db(?:$|-)/i
const MAX_ID_LENGTH = 512

function refuse(what: string, value: unknown, reason: string): never {
  const shown = typeof value === 'string' ? JSON.stringify(value.slice(0, 160)) : typeof value
  throw new NexusError('INVALID_ARGUMENT', `Invalid ${what} ${shown}: ${reason}`, { op: 'storage.open' })
}

function checkSegment(segment: string, what: string, value: string): void {
  if (!SEGMENT.test(segment)) {
    refuse(what, value, 'each part between slashes is 1 to 128 of A-Z a-z 0-9 . _ - and starts with a letter or digit')
  }
  if (segment.includes('..') || segment.endsWith('.')) refuse(what, value, 'a part has ".." or ends with a dot')
  if (DEVICE_NAME.test(segment)) refuse(what, value, `"${segment}" is a device name on Windows`)
  if (DATABASE_NAME.test(segment)) refuse(what, value, `"${segment}" is the name of a database file`)
}

/**
 * Splits a plugin id into the path segments it is stored under.
 *
 * An id is one or more segments joined by `/` (`nexus.tool.shell`, `nexus.agent.sub/researcher`), 512 characters at most. A
 * segment starts with a letter or digit and goes on with letters, digits, `.`, `_` and `-`, 128 characters at most; it has
 * no `..` and no trailing dot, is no device name of Windows and is not named like a database file (`store.db`,
 * `store.db-wal`, ...).
 *
 * @returns the segments, at least one
 * @throws NexusError `INVALID_ARGUMENT`, before any path is built
 * @see docs/formats/session-tree.md
 */
export function validatePluginId(id: string): string[] {
  if (typeof id !== 'string') refuse('plugin id', id, 'it must be a string')
  if (id.length > MAX_ID_LENGTH) refuse('plugin id', id, `it is longer than ${MAX_ID_LENGTH} characters`)
  const segments = id.split('/')
  for (const segment of segments) checkSegment(segment, 'plugin id', id)
  return segments
}

/**
 * Checks an agent id, which becomes one directory name: one segment of a plugin id.
 *
 * @throws NexusError `INVALID_ARGUMENT`
 */
export function validateAgentId(id: string): string {
  if (typeof id !== 'string') refuse('agent id', id, 'it must be a string')
  checkSegment(id, 'agent id', id)
  return id
}

/** The directory of plugins, below a session's directory, the storage root and an agent's directory alike. */
const PLUGINS_DIR = 'plugins'
/** The name of every plugin's database file. */
const DATABASE_FILE = 'store.db'

/**
 * Where a plugin's database lies below the directory of its scope: `plugins/<plugin id>/store.db`, `/` between parts.
 *
 * @throws NexusError `INVALID_ARGUMENT` for a bad id
 * @see docs/formats/session-tree.md
 */
export function pluginDatabasePath(pluginId: string): string {
  return [PLUGINS_DIR, ...validatePluginId(pluginId), DATABASE_FILE].join('/')
}

/** The plugin whose database lies at that path, the inverse of {@link pluginDatabasePath}; undefined for any other path. */
export function pluginOfDatabase(path: string): string | undefined {
  const parts = path.split('/')
  if (parts[0] !== PLUGINS_DIR || parts.at(-1) !== DATABASE_FILE) return undefined
  const id = parts.slice(1, -1).join('/')
  try {
    validatePluginId(id)
    return id
  } catch {
    return undefined
  }
}
