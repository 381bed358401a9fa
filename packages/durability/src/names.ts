// What a program needs to know of names and keys without loading what runs a session.
export { neverCrosses, sessionKeys, type SessionKeys } from './tree/keys.ts'
export { refuseReplacedDirectories, SESSION_DIRECTORIES } from './tree/session-directories.ts'
export { generateSessionId, isSessionId, validateSessionId, type SessionIdFormat } from './tree/session-id.ts'
export { StaleLocalTreeError } from './boot/stale-local-tree-error.ts'
