// What a program needs to know of names and keys without loading what runs a session.
export * from './tree/names.ts'
export { sessionKeys, type SessionKeys } from './tree/keys.ts'
export { refuseReplacedDirectories } from './tree/engine-places.ts'
export { generateSessionId, isSessionId, validateSessionId, type SessionIdFormat } from './tree/session-id.ts'
export { StaleLocalTreeError } from './boot/stale-local-tree-error.ts'
export { SessionOwnedError } from './owner/session-owned-error.ts'
