import { type ErrorClass, redactSecrets, systemCode } from '@nexus/objectstore'

/** Where a request failed. */
export type AzureFailure =
  /** The store answered, and refused; `code` is its name of the reason, empty where it gave none. */
  | { kind: 'answer'; status: number; code: string }
  /** No answer, half of one, or one that can't be the store's. `sent` is false when nothing can have reached it. */
  | { kind: 'network'; code: string | undefined; sent: boolean }
  /** No token. `lost` when waiting will not bring one. */
  | { kind: 'credentials'; lost: boolean }

/**
 * A failed request of this backend. It holds nothing of the SDK's own error, which carries the request: its headers with the
 * token or the signature, and its URL with the SAS.
 */
export class AzureError extends Error {
  readonly failure: AzureFailure
  /** The API's name of the operation, e.g. `Put Blob`. */
  readonly op: string
  /** The system's code of a lost connection, or the store's code of its refusal. */
  readonly code: string | undefined
  /** HTTP status of the answer, where there was one. */
  readonly status: number | undefined
  /** How long the store asks to wait, in ms. */
  readonly retryAfterMs: number | undefined

  constructor(op: string, message: string, failure: AzureFailure, retryAfterMs?: number) {
    super(redactSecrets(message))
    this.name = 'AzureError'
    this.op = op
    this.failure = failure
    this.code = failure.kind === 'credentials' ? undefined : failure.code
    this.status = failure.kind === 'answer' ? failure.status : undefined
    this.retryAfterMs = retryAfterMs
  }
}

interface SdkError extends Error {
  statusCode?: number
  code?: string
  response?: { headers: { get(name: string): string | undefined } }
  errors?: unknown[]
}

// Its message goes on with the request's times and, for a wrong signature, with what was signed.
const FIRST_LINE = /^[^\r\n]{0,500}/

/** What the SDK threw, as an error without the request. */
export function toAzureError(op: string, error: unknown): AzureError {
  if (error instanceof AzureError) return error
  const sdk = (error instanceof Error ? error : new Error(String(error))) as SdkError
  const detail = FIRST_LINE.exec(sdk.message)?.[0] ?? ''
  if (/Credential|Authentication/.test(sdk.name)) {
    return new AzureError(op, `no access token: ${detail}`, { kind: 'credentials', lost: isLostForGood(sdk) })
  }
  const headers = sdk.response?.headers
  if (sdk.statusCode !== undefined && headers !== undefined) {
    const code = headers.get('x-ms-error-code') ?? sdk.code ?? ''
    const requestId = headers.get('x-ms-request-id')
    const seconds = Number(headers.get('retry-after') ?? Number.NaN)
    const said = detail === '' || detail === code ? '' : `: ${detail}`
    const request = requestId === undefined ? '' : ` (request ${requestId})`
    const message = `${op} was answered ${sdk.statusCode}${code === '' ? '' : ` ${code}`}${said}${request}`
    const failure = { kind: 'answer', status: sdk.statusCode, code } as const
    return new AzureError(op, message, failure, Number.isFinite(seconds) ? seconds * 1000 : undefined)
  }
  const code = nearestCode(sdk)
  const sent = code === undefined || !(NOT_CONNECTED.has(code) || UNTRUSTED.test(code))
  return new AzureError(op, `${op} got no answer: ${detail}`, { kind: 'network', code, sent })
}

/** An answer that can't be the store's, or half of one: whatever stands between says yes to everything. */
export function unexpectedAnswer(op: string, problem: string): AzureError {
  const message = `${op} got ${problem}, so it is not that of Blob Storage: is a proxy or portal in between?`
  return new AzureError(op, message, { kind: 'network', code: undefined, sent: true })
}

// Nothing was sent: no connection came about.
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN'])

// The server could not prove its identity: waiting does not help, and nothing was sent to it.
const UNTRUSTED = /^(?:ERR_TLS_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH)/

function nearestCode(error: unknown): string | undefined {
  let current: unknown = error
  for (let depth = 0; depth < 5 && current instanceof Error; depth++) {
    const code = systemCode(current)
    if (code !== undefined) return code
    current = current.cause
  }
  return undefined
}

/** Whether a machine was told that it has an identity: that nothing answers for it is an outage then. */
export function namesIdentity(): boolean {
  return ['IDENTITY_ENDPOINT', 'MSI_ENDPOINT', 'AZURE_FEDERATED_TOKEN_FILE', 'AZURE_CLIENT_SECRET'].some(
    (name) => (process.env[name] ?? '') !== '',
  )
}

/** Whether no token will come by waiting: nothing is configured, or an authority refused. */
function isLostForGood(error: SdkError): boolean {
  const each = error.errors ?? [error]
  const refused = each.some((one) => {
    const { statusCode } = one as SdkError
    return statusCode !== undefined && statusCode >= 400 && statusCode < 500 && statusCode !== 429
  })
  return refused || !namesIdentity()
}

const CLASSES: Readonly<Record<string, ErrorClass>> = {
  BlobNotFound: 'not-found',
  ContainerNotFound: 'permanent',
  ContainerBeingDeleted: 'permanent',
  ServerBusy: 'throttled',
  AccountIsDisabled: 'permission',
  InvalidAuthenticationInfo: 'permission',
  BlobImmutableDueToPolicy: 'permission',
  // Bytes were damaged on the way, or the local file changed between two readings.
  Md5Mismatch: 'temporary',
  // Another writer of the name has committed: ours are staged again.
  InvalidBlockList: 'temporary',
  BlobArchived: 'permanent',
  InvalidBlobType: 'permanent',
  SnapshotsPresent: 'permanent',
  ContainerDisabled: 'permanent',
}

/** What an error of this backend means; undefined for what is not one of its own. */
export function classifyAzureError(error: unknown): ErrorClass | undefined {
  if (!(error instanceof AzureError)) return undefined
  const { failure } = error
  if (failure.kind === 'network') return UNTRUSTED.test(failure.code ?? '') ? 'permanent' : 'temporary'
  if (failure.kind === 'credentials') return failure.lost ? 'permission' : 'temporary'
  const { code, status } = failure
  if (Object.hasOwn(CLASSES, code)) return CLASSES[code]
  if (status === 429) return 'throttled'
  if (status === 401 || status === 403) return 'permission'
  if (status === 408 || status === 409 || status >= 500) return 'temporary'
  // An answer that could not be read, say of a captive portal. It decides nothing.
  return status < 300 ? 'temporary' : 'permanent'
}

/** Whether the store refused with one of these codes. */
export function hasCode(error: unknown, ...codes: string[]): error is AzureError {
  return error instanceof AzureError && error.failure.kind === 'answer' && codes.includes(error.failure.code)
}

/** Whether the request of a failed write may have been applied all the same: no answer came, or one that does not tell. */
export function mayHaveHappened(error: unknown): boolean {
  if (!(error instanceof AzureError)) return false
  const { failure } = error
  if (failure.kind === 'network') return failure.sent
  if (failure.kind !== 'answer') return false
  // "Busy" is a refusal; what a gateway says about a backend that went silent is none.
  const { status, code } = failure
  return status < 300 || ((status >= 500 || status === 408) && code !== 'ServerBusy')
}
