import { NexusError } from '@nexus/errors'

/** The manifest of a session that went on in the versioned layout. Nothing else has this version. */
export const MOVED_SCHEMA_VERSION = 3

/** What stops a mirror writer that slept while its session was moved: it finds another pair than its own. */
export interface MovedManifest {
  _schema_version: typeof MOVED_SCHEMA_VERSION
  session_id: string
  generation: number
  nonce: string
  instance_id: string
  /** RFC 3339. */
  completed_at: string
  moved: 'versioned'
}

/** The nonce of such a manifest; undefined for every other text. */
export function movedNonce(text: string): string | undefined {
  if (!text.startsWith(`{"_schema_version":${MOVED_SCHEMA_VERSION},`)) return undefined
  try {
    const { moved, nonce } = JSON.parse(text) as Partial<MovedManifest>
    return moved === 'versioned' && typeof nonce === 'string' ? nonce : undefined
  } catch {
    return undefined
  }
}

/** What is said of it to whoever looks for a commit of the mirror layout. */
export function movedError(key: string): NexusError {
  const message =
    `${key} says that its session went on in the versioned layout: open it with core.object_store.layout versioned, or move it ` +
    'back with nexus store migrate --to mirror'
  return new NexusError('UNSUPPORTED', message, { op: 'manifest.moved', key })
}
