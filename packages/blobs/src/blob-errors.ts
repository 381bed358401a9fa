import { NexusError } from '@nexus/errors'

/**
 * The store has no blob of this digest, and `onMiss` (where there is one) could not bring it back. Code `NOT_FOUND`.
 */
export class BlobNotFoundError extends NexusError {
  readonly sha256: string

  constructor(sha256: string, op: string, cause?: unknown) {
    super('NOT_FOUND', `no blob ${sha256}: it was never put here, or it was evicted or deleted`, {
      op,
      key: sha256,
      ...(cause === undefined ? {} : { cause }),
    })
    this.name = 'BlobNotFoundError'
    this.sha256 = sha256
  }
}

/** One blob whose bytes are not what its name says. */
export interface BlobMismatch {
  /** The digest that the name, the caller or the store promises. */
  sha256: string
  /** The digest of the bytes that were found. */
  actualSha256: string
}

/**
 * Stored bytes do not have the digest they are named after. Code `CORRUPT`. `sha256` and `actualSha256` are those of the
 * first mismatch; `mismatches` holds every one that the operation found, at least one.
 */
export class BlobCorruptError extends NexusError {
  readonly sha256: string
  readonly actualSha256: string
  readonly mismatches: readonly BlobMismatch[]

  constructor(mismatches: readonly [BlobMismatch, ...BlobMismatch[]], op: string) {
    const [{ sha256, actualSha256 }] = mismatches
    const more = mismatches.length > 1 ? ` (and ${mismatches.length - 1} more)` : ''
    super(
      'CORRUPT',
      `the bytes for blob ${sha256} have the sha256 ${actualSha256}${more}: delete that copy and fetch the blob again`,
      { op, key: sha256 },
    )
    this.name = 'BlobCorruptError'
    this.sha256 = sha256
    this.actualSha256 = actualSha256
    this.mismatches = mismatches
  }
}
