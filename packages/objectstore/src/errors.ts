import { isNexusError, NexusError } from '@nexus/errors'

/** A key or prefix that breaks the key rules. Code `INVALID_ARGUMENT`; nothing was touched. */
export class InvalidKeyError extends NexusError {
  override readonly key: string
  /** Which rule was broken, as a clause: `has an empty segment`. */
  readonly reason: string

  constructor(key: string, reason: string, what: 'key' | 'prefix' = 'key') {
    super('INVALID_ARGUMENT', `object ${what} ${quoteKey(key)} ${reason}`, { op: 'objectstore.validate', key })
    this.name = 'InvalidKeyError'
    this.key = key
    this.reason = reason
  }
}

/** Tells an {@link InvalidKeyError} of any installed copy of this package from everything else. */
export function isInvalidKeyError(value: unknown): value is InvalidKeyError {
  return isNexusError(value, 'INVALID_ARGUMENT') && value.name === 'InvalidKeyError'
}

/** The store answered that there is no such object. Code `NOT_FOUND`. An outage is never this. */
export class ObjectNotFoundError extends NexusError {
  override readonly key: string

  constructor(key: string, options: { op?: string; cause?: unknown } = {}) {
    super('NOT_FOUND', `object ${quoteKey(key)} does not exist`, { op: 'objectstore.get', key, ...options })
    this.name = 'ObjectNotFoundError'
    this.key = key
  }
}

/**
 * Tells an {@link ObjectNotFoundError} of any installed copy of this package from everything else. A `NOT_FOUND` that is none,
 * as of a missing bucket, says nothing of the object.
 */
export function isObjectNotFound(value: unknown): value is ObjectNotFoundError {
  return isNexusError(value, 'NOT_FOUND') && value.name === 'ObjectNotFoundError'
}

/**
 * An object came in another form than it was stored in: something between here and the store compresses. Code `UNSUPPORTED`;
 * what arrived is not damaged, and fetching it again gives the same.
 */
export class ContentEncodingError extends NexusError {
  override readonly key: string
  /** As the answer named it: `gzip`. */
  readonly encoding: string

  constructor(key: string, encoding: string, options: { cause?: unknown } = {}) {
    const message =
      `object ${quoteKey(key)} came with Content-Encoding ${quoteKey(encoding)}, in which it was not stored: ` +
      'a proxy, a CDN or a setting of the bucket compresses what it passes on; turn that off for this bucket'
    super('UNSUPPORTED', message, { op: 'objectstore.get', key, ...options })
    this.name = 'ContentEncodingError'
    this.key = key
    this.encoding = encoding
  }
}

const FAILURE_BRAND = Symbol.for('nexus.objectstore.failure/1')

/**
 * One object's failure inside a call about many: names the key, which the SDK's own error rarely does, and keeps that error
 * as its cause. `ObjectStore` classifies the cause and puts the key on the error it throws.
 */
export class ObjectFailure extends Error {
  readonly key: string

  constructor(key: string, cause: unknown) {
    super(`object ${quoteKey(key)}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
    this.name = 'ObjectFailure'
    this.key = key
  }
}

Object.defineProperty(ObjectFailure.prototype, FAILURE_BRAND, { value: true })

/** Tells an {@link ObjectFailure} of any installed copy of this package from everything else. */
export function isObjectFailure(value: unknown): value is ObjectFailure {
  return value instanceof Error && FAILURE_BRAND in value
}

const SHOWN_CHARACTERS = 300

/** A key as it stands in messages: quoted, control characters escaped, cut after 300 characters. */
export function quoteKey(key: string): string {
  // A key that is not even a string reaches here from plain JavaScript.
  const quoted = JSON.stringify(key) ?? 'undefined'
  return quoted.length <= SHOWN_CHARACTERS ? quoted : `${quoted.slice(0, SHOWN_CHARACTERS)}..."`
}
