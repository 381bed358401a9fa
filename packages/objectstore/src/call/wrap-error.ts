import { dirname, sep } from 'node:path'
import { type ErrorCode, isNexusError, NexusError, systemCode } from '@nexus/errors'
import type { ErrorClass } from '../driver.ts'
import { isObjectFailure, ObjectNotFoundError, quoteKey } from '../errors.ts'
import { redactError, redactSecrets } from './redact.ts'

/** One call as its errors describe it. */
export interface CallContext {
  /** `put`, `get`, ... */
  verb: string
  /** The store's name for people: the backend name of the configuration. */
  store: string
  /** The key or prefix the call is about. */
  key?: string
  /** The local file or directory the call reads or writes: failures of it are the disk's, not the store's. */
  localPath?: string
  classify?: ((error: unknown) => ErrorClass | undefined) | undefined
}

const CODE_OF_CLASS: Readonly<Record<ErrorClass, ErrorCode>> = {
  temporary: 'UNAVAILABLE',
  throttled: 'THROTTLED',
  permission: 'PERMISSION',
  'not-found': 'NOT_FOUND',
  permanent: 'PRECONDITION',
}

// The request may have reached the store before these, so a conditional write may have happened.
const CONNECTION_LOST = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'ESOCKETTIMEDOUT'])
// Nothing was sent.
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN'])
// write(2) failures carry no path, and no network call ends in one of these.
const DISK_ONLY = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EMFILE', 'ENFILE', 'EFBIG'])

/**
 * Turns whatever a driver threw into one {@link NexusError} with `code`, `op`, `key`, `retryable` and the driver's error as
 * `cause`. A NexusError passes as it is: it was wrapped already, or the driver knew better.
 *
 * Codes: a failure of the local path is `LOCAL_IO`; then `classify` decides (temporary `UNAVAILABLE`, throttled `THROTTLED`,
 * permission `PERMISSION`, not found `NOT_FOUND`, permanent `PRECONDITION`); then system codes; a thrown `TypeError` and its
 * kind is `INTERNAL`; anything else is taken for an outage. For `putIfAbsent` a lost connection, or an error without
 * explanation, is `OUTCOME_UNKNOWN`.
 */
export function wrapError(thrown: unknown, call: CallContext): NexusError {
  if (isObjectFailure(thrown)) return wrapError(thrown.cause, { ...call, key: thrown.key })
  // Before what the driver reads its class from is taken away.
  const code = isNexusError(thrown) ? thrown.code : codeOf(thrown, call)
  const error = redactError(thrown)
  if (isNexusError(error)) return error
  const op = `objectstore.${call.verb}`
  if (code === 'NOT_FOUND' && call.verb === 'get' && call.key !== undefined) {
    return new ObjectNotFoundError(call.key, { op, cause: error })
  }
  const detail = redactSecrets(error instanceof Error ? error.message || error.name : String(error))
  const options = call.key === undefined ? { op, cause: error } : { op, key: call.key, cause: error }
  return new NexusError(code, `${describeCall(call)} failed: ${detail}`, options)
}

/** `put of "a/b" on s3`, for messages. */
export function describeCall(call: CallContext): string {
  const subject = call.key === undefined || call.key === '' ? call.verb : `${call.verb} of ${quoteKey(call.key)}`
  return `${subject} on ${call.store}`
}

function codeOf(error: unknown, call: CallContext): ErrorCode {
  if (call.localPath !== undefined && isLocalFailure(error, call.localPath)) return 'LOCAL_IO'
  const system = networkCode(error)
  const conditional = call.verb === 'putIfAbsent'
  if (conditional && system !== undefined && CONNECTION_LOST.has(system)) return 'OUTCOME_UNKNOWN'
  const known = classify(error, call)
  if (known !== undefined) return CODE_OF_CLASS[known]
  if (isProgrammingError(error)) return 'INTERNAL'
  if (system !== undefined && DISK_ONLY.has(system)) return 'LOCAL_IO'
  if (system !== undefined && NOT_CONNECTED.has(system)) return 'UNAVAILABLE'
  return conditional ? 'OUTCOME_UNKNOWN' : 'UNAVAILABLE'
}

function classify(error: unknown, call: CallContext): ErrorClass | undefined {
  try {
    const known = call.classify?.(error)
    return known !== undefined && Object.hasOwn(CODE_OF_CLASS, known) ? known : undefined
  } catch {
    return undefined // A classifier that fails must not hide the error it was asked about.
  }
}

function isProgrammingError(error: unknown): boolean {
  // `fetch` reports a dead network as a TypeError with a cause.
  if (error instanceof TypeError) return error.cause === undefined
  return error instanceof ReferenceError || error instanceof RangeError || error instanceof SyntaxError
}

function isLocalFailure(error: unknown, localPath: string): boolean {
  if (systemCode(error) === undefined) return false
  const { path, dest } = error as { path?: unknown; dest?: unknown }
  return [path, dest].some((at) => typeof at === 'string' && isAtOrBeside(at, localPath))
}

// Downloads go through a temporary file beside the target, hydration writes below its directory.
function isAtOrBeside(path: string, localPath: string): boolean {
  return path === localPath || path.startsWith(localPath + sep) || dirname(path) === dirname(localPath)
}

/** The system code of the error or of the nearest of its causes that has one: HTTP clients wrap the socket's error. */
function networkCode(error: unknown): string | undefined {
  let current: unknown = error
  for (let depth = 0; depth < 8 && current instanceof Error; depth++) {
    const code = systemCode(current)
    if (code !== undefined && (CONNECTION_LOST.has(code) || NOT_CONNECTED.has(code) || DISK_ONLY.has(code))) return code
    current = current.cause
  }
  return undefined
}
