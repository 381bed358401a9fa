import {
  type ErrorClass,
  type ErrorCode,
  InvalidKeyError,
  isInvalidKeyError,
  isNexusError,
  isObjectFailure,
  NexusError,
  ObjectFailure,
  ObjectNotFoundError,
} from '@nexus/objectstore'
import { isLocalError } from './object/copy-file.ts'

/** An error on its way between the threads; structured cloning would lose its class and fields. */
export interface WireError {
  /** `aborted`: the call stopped because it was told to. */
  kind: 'nexus' | 'invalid-key' | 'missing' | 'object' | 'system' | 'aborted'
  name: string
  message: string
  stack?: string | undefined
  code?: string | undefined
  errno?: number | undefined
  syscall?: string | undefined
  path?: string | undefined
  dest?: string | undefined
  op?: string | undefined
  key?: string | undefined
  reason?: string | undefined
  retryable?: boolean | undefined
  local?: boolean | undefined
  cause?: WireError | undefined
}

/** A system error of the worker, with the fields of Node's and the call it broke. */
export class FsError extends Error {
  readonly code: string | undefined
  readonly errno: number | undefined
  readonly syscall: string | undefined
  readonly path: string | undefined
  readonly dest: string | undefined
  /** The failed call, e.g. `put`. */
  readonly op: string
  /** The object or prefix it was about. */
  readonly key: string | undefined
  /** Whether the caller's own file failed, not the bucket. */
  readonly local: boolean

  constructor(wire: WireError, op: string, key: string | undefined) {
    super(wire.message, wire.cause === undefined ? undefined : { cause: fromWire(wire.cause, op, key) })
    this.name = wire.name
    this.code = wire.code
    this.errno = wire.errno
    this.syscall = wire.syscall
    this.path = wire.path
    this.dest = wire.dest
    this.op = op
    this.key = key
    this.local = wire.local ?? false
  }
}

/** What crosses from the worker for an error thrown there. */
export function toWire(error: unknown): WireError {
  if (!(error instanceof Error)) return { kind: 'system', name: 'Error', message: String(error) }
  const { code, errno, syscall, path } = error as NodeJS.ErrnoException
  const fields = error as { dest?: unknown; reason?: unknown; key?: unknown; op?: unknown; retryable?: unknown }
  return {
    kind: kindOf(error),
    name: error.name,
    message: error.message,
    stack: error.stack,
    code,
    errno,
    syscall,
    path,
    dest: text(fields.dest),
    op: text(fields.op),
    key: text(fields.key),
    reason: text(fields.reason),
    retryable: typeof fields.retryable === 'boolean' ? fields.retryable : undefined,
    local: isLocalError(error),
    ...(error.cause instanceof Error ? { cause: toWire(error.cause) } : {}),
  }
}

function kindOf(error: Error): WireError['kind'] {
  if (isInvalidKeyError(error)) return 'invalid-key'
  if (isNexusError(error, 'NOT_FOUND')) return 'missing'
  if (isNexusError(error)) return 'nexus'
  return isObjectFailure(error) ? 'object' : 'system'
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/**
 * The error again, on the main thread.
 *
 * @param op the call it broke
 * @param key what the call was about
 */
export function fromWire(wire: WireError, op: string, key: string | undefined): Error {
  const cause = wire.cause === undefined ? undefined : fromWire(wire.cause, op, key)
  if (wire.kind === 'invalid-key') return new InvalidKeyError(wire.key ?? key ?? '', wire.reason ?? 'is refused')
  if (wire.kind === 'missing') return new ObjectNotFoundError(wire.key ?? key ?? '', { op: `objectstore.${op}` })
  if (wire.kind === 'object') return new ObjectFailure(wire.key ?? '', cause)
  if (wire.kind !== 'nexus') return new FsError(wire, op, key)
  // The caller knows the key, the worker the disk's name of a thing; only hydrate is about keys that its caller didn't name.
  const named = op === 'hydrate' ? (wire.key ?? key) : (key ?? wire.key)
  return new NexusError((wire.code ?? 'INTERNAL') as ErrorCode, wire.message, {
    op: `objectstore.${op}`,
    ...(named === undefined ? {} : { key: named }),
    ...(wire.retryable === undefined ? {} : { retryable: wire.retryable }),
    ...(cause === undefined ? {} : { cause }),
  })
}

const CLASSES: Readonly<Record<string, ErrorClass>> = {
  EACCES: 'permission',
  EPERM: 'permission',
  EROFS: 'permission',
  ENAMETOOLONG: 'permanent',
  EXDEV: 'permanent',
  EINVAL: 'permanent',
  EILSEQ: 'permanent',
  EISDIR: 'permanent',
  EMLINK: 'permanent',
  EFBIG: 'permanent',
  // Of the bucket: what a mount that went away answers, or a disk that somebody has to make room on.
  ENOENT: 'temporary',
  ENOTDIR: 'temporary',
  ENOSPC: 'temporary',
  EDQUOT: 'temporary',
  EIO: 'temporary',
  ESTALE: 'temporary',
  ENODEV: 'temporary',
  ENXIO: 'temporary',
  ENOTCONN: 'temporary',
  ETIMEDOUT: 'temporary',
  EHOSTDOWN: 'temporary',
  EHOSTUNREACH: 'temporary',
  ENETUNREACH: 'temporary',
  ENETDOWN: 'temporary',
  ECONNREFUSED: 'temporary',
  ECONNRESET: 'temporary',
  EREMOTEIO: 'temporary',
  ELOOP: 'temporary',
  EAGAIN: 'temporary',
  EBUSY: 'temporary',
  EINTR: 'temporary',
  EMFILE: 'temporary',
  ENFILE: 'temporary',
  ENOMEM: 'temporary',
  ENOLCK: 'temporary',
}

/** What an error of this backend means. Undefined for the caller's own file, whose failure is not the store's. */
export function classifyFsError(error: unknown): ErrorClass | undefined {
  if (!(error instanceof FsError) || error.local || error.code === undefined) return undefined
  return Object.hasOwn(CLASSES, error.code) ? CLASSES[error.code] : undefined
}
