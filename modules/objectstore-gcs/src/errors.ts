import { type ErrorClass, redactSecrets, systemCode } from '@nexus/objectstore'

/** Where a request failed. */
export type GcsFailure =
  /** The store answered, and refused. */
  | { kind: 'answer'; status: number; reason: string; requestId?: string | undefined }
  /** No answer, or half of one. `sent` is false when nothing can have reached the store. */
  | { kind: 'network'; code: string | undefined; sent: boolean }
  /** No token. `lost` when waiting will not bring one. */
  | { kind: 'credentials'; lost: boolean }

/**
 * A failed request of this backend. It holds nothing of the SDK's own error, whose configuration carries the request's
 * headers and with them the token.
 */
export class GcsError extends Error {
  readonly failure: GcsFailure
  /** The API's name of the operation, e.g. `objects.insert`. */
  readonly op: string
  /** The system's code of a lost connection, where there is one. */
  readonly code: string | undefined
  /** HTTP status of the answer, where there was one. */
  readonly status: number | undefined
  /** How long the store asks to wait, in ms. */
  readonly retryAfterMs: number | undefined

  constructor(op: string, message: string, failure: GcsFailure, retryAfterMs?: number) {
    super(redactSecrets(message))
    this.name = 'GcsError'
    this.op = op
    this.failure = failure
    this.code = failure.kind === 'network' ? failure.code : undefined
    this.status = failure.kind === 'answer' ? failure.status : undefined
    this.retryAfterMs = retryAfterMs
  }
}

/** A refusal as an error. `text` is the body, JSON or not. */
export function answerError(
  op: string,
  status: number,
  headers: Readonly<Record<string, string | undefined>>,
  text: string,
): GcsError {
  const { reason, message } = readErrorBody(text)
  const requestId = headers['x-guploader-uploadid'] ?? headers['x-goog-request-id']
  const parts = [
    `${op} was answered ${status}`,
    reason === '' ? '' : ` ${reason}`,
    message === '' ? '' : `: ${message}`,
    requestId === undefined ? '' : ` (request ${requestId})`,
  ]
  const seconds = Number(headers['retry-after'] ?? Number.NaN)
  const failure: GcsFailure = { kind: 'answer', status, reason, requestId }
  return new GcsError(op, parts.join(''), failure, Number.isFinite(seconds) ? seconds * 1000 : undefined)
}

const SHOWN_CHARACTERS = 500

function readErrorBody(text: string): { reason: string; message: string } {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown; errors?: { reason?: unknown }[] } | string }
    if (typeof error === 'object') {
      const reason = error.errors?.[0]?.reason
      return {
        reason: typeof reason === 'string' ? reason : '',
        message: typeof error.message === 'string' ? error.message.slice(0, SHOWN_CHARACTERS) : '',
      }
    }
  } catch {
    // Media requests are refused in plain text, gateways answer with pages.
  }
  return { reason: '', message: text.slice(0, SHOWN_CHARACTERS).trim() }
}

// Nothing was sent: no connection came about.
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN'])

// The server could not prove its identity: waiting does not help, and nothing was sent to it.
const UNTRUSTED = /^(?:ERR_TLS_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH)/

/** What a failed transfer threw, as an error without its configuration. */
export function networkError(op: string, error: unknown): GcsError {
  const code = nearestCode(error)
  const detail = error instanceof Error ? error.message : String(error)
  const sent = code === undefined || !(NOT_CONNECTED.has(code) || UNTRUSTED.test(code))
  return new GcsError(op, `${op} got no answer: ${detail}`, { kind: 'network', code, sent })
}

/** What a request that nothing moved on for too long failed with. */
export function silenceError(op: string, silentMs: number): GcsError {
  const message = `${op} got no answer: nothing moved for ${silentMs / 1000} s`
  return new GcsError(op, message, { kind: 'network', code: undefined, sent: true })
}

function nearestCode(error: unknown): string | undefined {
  let current: unknown = error
  for (let depth = 0; depth < 5 && current instanceof Error; depth++) {
    const code = systemCode(current)
    if (code !== undefined) return code
    current = current.cause ?? (current as { error?: unknown }).error
  }
  return undefined
}

const THROTTLED_REASONS = new Set(['rateLimitExceeded', 'userRateLimitExceeded', 'quotaExceeded', 'dailyLimitExceeded'])

/** What an error of this backend means; undefined for what is not one of its own. */
export function classifyGcsError(error: unknown): ErrorClass | undefined {
  if (!(error instanceof GcsError)) return undefined
  const { failure } = error
  if (failure.kind === 'network') return UNTRUSTED.test(failure.code ?? '') ? 'permanent' : 'temporary'
  if (failure.kind === 'credentials') return failure.lost ? 'permission' : 'temporary'
  return classifyAnswer(failure.status, failure.reason)
}

function classifyAnswer(status: number, reason: string): ErrorClass {
  if (status === 429 || (status === 403 && THROTTLED_REASONS.has(reason))) return 'throttled'
  if (status === 401 || status === 403) return 'permission'
  if (status === 408 || status === 409 || status >= 500) return 'temporary'
  return 'permanent'
}

/** Whether the store answered with this status. */
export function hasStatus(error: unknown, ...statuses: number[]): error is GcsError {
  return error instanceof GcsError && error.status !== undefined && statuses.includes(error.status)
}
