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
  readonly owner: string
}

/**
 * The keys of a session.
 *
 * @param sessionId refused with `INVALID_ARGUMENT` when it breaks the rules of session ids, before any key is built
 * @see docs/formats/object-store.md
 */
export function sessionKeys(sessionId: string): SessionKeys {
  validateSessionId(sessionId)
  const tree = `sessions/${sessionId}`
  return {
    tree,
    manifestPrefix: `${tree}.manifest`,
    manifest: `${tree}.manifest/manifest.json`,
    marker: `${tree}.snapshot.json`,
    owner: `${tree}.owner/owner.json`,
  }
}
