import { relative, sep } from 'node:path'
import { NexusError } from '@nexus/errors'

/** Prefix of machine-wide stores, below the storage root and in the object store alike. */
export const APP_ROOT = 'plugins'

/** Prefix of one agent's stores. */
export function agentRoot(agentId: string): string {
  return `agents/${agentId}/plugins`
}

/** The only file of a plugin directory that is carried. */
export const STORE_FILE = 'store.db'

/**
 * The object key of a shared store: its path below the storage root.
 *
 * @throws `INVALID_ARGUMENT` for a path that is not `<root>/plugins/.../store.db` or `<root>/agents/<agent>/plugins/.../store.db`,
 *   or that names the session: a store keyed under one session would quietly become that session's own
 * @see docs/concepts/durability.md
 */
export function sharedStoreKey(livePath: string, storageRoot: string, sessionId: string): string {
  const key = relative(storageRoot, livePath).split(sep).join('/')
  const segments = key.split('/')
  const isApp = segments[0] === 'plugins' && segments.length >= 3
  const isAgent = segments[0] === 'agents' && segments[2] === 'plugins' && segments.length >= 5
  if (!(isApp || isAgent) || segments.at(-1) !== STORE_FILE) {
    throw refusal(livePath, `it is not ${STORE_FILE} of a plugin below ${storageRoot}`)
  }
  if (segments.includes(sessionId)) throw refusal(livePath, `its key ${key} would name session ${sessionId}`)
  return key
}

function refusal(path: string, why: string): NexusError {
  return new NexusError('INVALID_ARGUMENT', `the shared store at ${path} has no object key: ${why}`, {
    op: 'durability.shared-key',
    key: path,
  })
}
