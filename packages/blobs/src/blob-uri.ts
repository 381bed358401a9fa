import { NexusError } from '@nexus/errors'

const SCHEME = 'nexus-blob:'
const DIGEST = /^[0-9a-f]{64}$/

/** The uri under which a blob is named in conversations and events. */
export function blobUri(sha256: string): string {
  return SCHEME + sha256
}

/**
 * The digest that a `nexus-blob:<sha256>` uri names. Nothing but 64 lowercase hex digits passes, so a uri from a
 * conversation can't name any other path.
 *
 * @throws NexusError `INVALID_ARGUMENT` for anything else
 */
export function parseBlobUri(uri: string): string {
  const sha256 = typeof uri === 'string' && uri.startsWith(SCHEME) ? uri.slice(SCHEME.length) : ''
  if (!DIGEST.test(sha256)) throw invalid(uri, `a blob uri is ${SCHEME} and 64 lowercase hex digits`)
  return sha256
}

/** The digest that a bare digest or a blob uri names; refuses anything else as {@link parseBlobUri} does. */
export function parseBlobRef(shaOrUri: string): string {
  if (typeof shaOrUri === 'string' && DIGEST.test(shaOrUri)) return shaOrUri
  return parseBlobUri(shaOrUri)
}

export function isDigest(text: string): boolean {
  return DIGEST.test(text)
}

function invalid(value: unknown, why: string): NexusError {
  return new NexusError('INVALID_ARGUMENT', `${JSON.stringify(value)} names no blob: ${why}`, { op: 'blobs.parse' })
}
