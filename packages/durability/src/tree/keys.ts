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
 * @see docs/formats/object-store.md
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
