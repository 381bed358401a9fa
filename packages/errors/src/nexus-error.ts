/**
 * What the caller can do about a failure. Programs branch on these; messages are for people and may change.
 *
 * - `INVALID_ARGUMENT` the input is wrong; nothing was touched. Mend the call.
 * - `NOT_FOUND` the named thing does not exist.
 * - `UNSUPPORTED` this backend, platform or format version can't do it.
 * - `PERMISSION` the store or the disk refuses us. Mend credentials or modes.
 * - `THROTTLED` too many requests. Retry later, slower.
 * - `UNAVAILABLE` an outage or a deadline. Retry later.
 * - `PRECONDITION` the state is not the one the call needs (already exists, stale, wrong order).
 * - `LOCKED` another live process holds it.
 * - `CORRUPT` stored bytes are not what was written.
 * - `FENCED` another writer took over; this one must stop writing.
 * - `CLOSED` the object was closed.
 * - `ABORTED` the caller's signal fired.
 * - `OUTCOME_UNKNOWN` the answer was lost: it may or may not have happened. Read back before concluding.
 * - `LOCAL_IO` the local disk failed (full, read-only, I/O error).
 * - `DRIVER_MISSING` no backend is registered under that name.
 * - `DRIVER_CONFLICT` two different backends claim one name.
 * - `INTERNAL` a bug.
 */
export type ErrorCode =
  | 'INVALID_ARGUMENT'
  | 'NOT_FOUND'
  | 'UNSUPPORTED'
  | 'PERMISSION'
  | 'THROTTLED'
  | 'UNAVAILABLE'
  | 'PRECONDITION'
  | 'LOCKED'
  | 'CORRUPT'
  | 'FENCED'
  | 'CLOSED'
  | 'ABORTED'
  | 'OUTCOME_UNKNOWN'
  | 'LOCAL_IO'
  | 'DRIVER_MISSING'
  | 'DRIVER_CONFLICT'
  | 'INTERNAL'

/** What a {@link NexusError} carries besides its message. */
export interface NexusErrorOptions {
  /** The operation that failed, as `area.verb`, e.g. `objectstore.put`. */
  op?: string
  /** The key, path or id it failed on. Never a credential. */
  key?: string
  /** Whether the same call may succeed later. Default: true for `THROTTLED` and `UNAVAILABLE`, else false. */
  retryable?: boolean
  cause?: unknown
}

const BRAND = Symbol.for('nexus.error/1')
const RETRYABLE: ReadonlySet<ErrorCode> = new Set(['THROTTLED', 'UNAVAILABLE'])

/** The one error class of Nexus. Subclasses exist only where they carry more fields. */
export class NexusError extends Error {
  readonly code: ErrorCode
  readonly op: string | undefined
  readonly key: string | undefined
  readonly retryable: boolean

  constructor(code: ErrorCode, message: string, options: NexusErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'NexusError'
    this.code = code
    this.op = options.op
    this.key = options.key
    this.retryable = options.retryable ?? RETRYABLE.has(code)
  }
}

// On the prototype, so that every instance of every installed copy answers to the same brand without own-property noise.
Object.defineProperty(NexusError.prototype, BRAND, { value: true })

/**
 * Tells a Nexus error from any other value, also across two installed copies of this package, where `instanceof` fails.
 *
 * @param code also demand this code
 */
export function isNexusError(value: unknown, code?: ErrorCode): value is NexusError {
  if (typeof value !== 'object' || value === null || !(BRAND in value)) return false
  return code === undefined || ('code' in value && value.code === code)
}
