import { type ErrorClass, quoteKey, redactError, redactSecrets, systemCode } from '@nexus/objectstore'

/** A failed request, with what the store's support asks for. The SDK's own error is the cause. */
export class S3RequestError extends Error {
  /** `PutObject`, `ListObjectsV2`, ... */
  readonly operation: string
  /** The store's error code, or the client's name of the failure: `NoSuchBucket`, `TimeoutError`. */
  readonly serviceCode: string
  /** HTTP status; undefined when nothing was answered. */
  readonly status: number | undefined
  readonly requestId: string | undefined

  /** @param hint what to do about refusals of a kind, by the store's code */
  constructor(operation: string, key: string, cause: Error, hint?: (serviceCode: string) => string | undefined) {
    const { status, requestId } = metadataOf(cause)
    const serviceCode = codeOf(cause)
    const subject = key === '' ? operation : `${operation} of ${quoteKey(key)}`
    const advice = hint?.(serviceCode)
    const way = advice === undefined ? '' : `; ${advice}`
    super(`${subject}: ${describe(cause, serviceCode, status, requestId)}${way}`, { cause: withoutSecrets(cause) })
    this.name = 'S3RequestError'
    this.operation = operation
    this.serviceCode = serviceCode
    this.status = status
    this.requestId = requestId
  }
}

const HARMLESS = new Set([
  'name',
  'message',
  'stack',
  'cause',
  'code',
  'errno',
  'syscall',
  'Code',
  '$fault',
  '$metadata',
])

/**
 * Leaves of an SDK's error what names the failure. It carries every field of the store's answer, which may repeat the access
 * key, the session token and what was signed, and leads to the request, whose headers hold the signature.
 */
function withoutSecrets(cause: Error): Error {
  for (const field of Object.keys(cause)) if (!HARMLESS.has(field)) Reflect.deleteProperty(cause, field)
  return redactError(cause)
}

/** The error as one of a request; anything that is neither the store's nor the connection's is left as it is. */
export function toRequestError(
  error: unknown,
  operation: string,
  key: string,
  hint?: (serviceCode: string) => string | undefined,
): unknown {
  if (!(error instanceof Error) || error instanceof S3RequestError) return error
  const known = '$metadata' in error || networkCode(error) !== undefined || CLIENT_FAILURES.has(error.name)
  return known ? new S3RequestError(operation, key, error, hint) : error
}

/** An answer of success that can't be the store's: whatever stands between says yes to everything. */
export function unexpectedAnswer(operation: string, key: string, missing: string): S3RequestError {
  const cause = new Error(
    `the answer has no ${missing}, so it is not that of an S3 store: is a proxy or portal in between?`,
  )
  return new S3RequestError(operation, key, Object.assign(cause, { name: 'UnexpectedAnswer' }))
}

/** Credentials that the store does not take, or that there are none of: worth being resolved again. */
export function isCredentialFailure(error: unknown): boolean {
  return error instanceof S3RequestError && CREDENTIALS.has(error.serviceCode)
}

const CLIENT_FAILURES = new Set(['TimeoutError', 'CredentialsProviderError', 'TokenProviderError'])

const CREDENTIALS = new Set([
  'CredentialsProviderError',
  'TokenProviderError',
  'ExpiredToken',
  'ExpiredTokenException',
  'InvalidAccessKeyId',
  'InvalidClientTokenId',
  'InvalidToken',
  'RequestExpired',
  'SignatureDoesNotMatch',
  'TokenRefreshRequired',
  'UnrecognizedClientException',
  // Where a store names no more precise cause.
  'AccessDenied',
  'Forbidden',
])

const CLASSES: Readonly<Record<string, ErrorClass>> = {
  SlowDown: 'throttled',
  Throttling: 'throttled',
  ThrottlingException: 'throttled',
  RequestLimitExceeded: 'throttled',
  TooManyRequests: 'throttled',
  TooManyRequestsException: 'throttled',
  BandwidthLimitExceeded: 'throttled',
  NoSuchKey: 'not-found',
  NoSuchBucket: 'permanent',
  InvalidBucketName: 'permanent',
  NoSuchUpload: 'temporary',
  NotImplemented: 'permanent',
  PermanentRedirect: 'permanent',
  TemporaryRedirect: 'temporary',
  AuthorizationHeaderMalformed: 'permanent',
  RequestTimeout: 'temporary',
  // The SDK has taken the store's clock from the answer: the next attempt is signed by it.
  RequestTimeTooSkewed: 'temporary',
  OperationAborted: 'temporary',
  ConditionalRequestConflict: 'temporary',
  // Bytes were damaged on the way, or the local file changed between two readings.
  BadDigest: 'temporary',
  XAmzContentChecksumMismatch: 'temporary',
  XAmzContentSHA256Mismatch: 'temporary',
  IncompleteBody: 'temporary',
  BrokenBody: 'temporary',
  TimeoutError: 'temporary',
}

/** What an error of this backend means. Never throws. */
export function classifyS3Error(error: unknown): ErrorClass | undefined {
  if (!(error instanceof S3RequestError)) return undefined
  const { serviceCode, status } = error
  if (Object.hasOwn(CLASSES, serviceCode)) return CLASSES[serviceCode]
  if (status === 401 || status === 403 || CREDENTIALS.has(serviceCode)) return 'permission'
  if (status === undefined || status === 408 || status === 409) return 'temporary'
  if (status === 429) return 'throttled'
  if (status === 501 || status === 505) return 'permanent'
  if (status >= 500) return 'temporary'
  // An answer that could not be read, say of a captive portal. It decides nothing.
  return status < 300 ? 'temporary' : 'permanent'
}

// No connection, so nothing can have been applied.
const NOT_CONNECTED = codes(
  'ECONNREFUSED ENOTFOUND EAI_AGAIN EHOSTUNREACH ENETUNREACH EHOSTDOWN ENETDOWN',
  'ERR_TLS_CERT_ALTNAME_INVALID CERT_HAS_EXPIRED DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE UNABLE_TO_GET_ISSUER_CERT_LOCALLY ERR_SSL_WRONG_VERSION_NUMBER',
)

const NETWORK = new Set([
  ...NOT_CONNECTED,
  ...codes(
    'ECONNRESET ECONNABORTED EPIPE ETIMEDOUT ESOCKETTIMEDOUT ERR_STREAM_PREMATURE_CLOSE',
    'EPROTO HPE_INVALID_CONSTANT HPE_INVALID_VERSION HPE_INVALID_EOF_STATE',
  ),
])

function codes(...lines: string[]): Set<string> {
  return new Set(lines.flatMap((line) => line.split(' ')))
}

/** Whether the request of a failed write may have been applied all the same: no answer came, or one that does not tell. */
export function mayHaveHappened(error: unknown): boolean {
  if (!(error instanceof S3RequestError)) return false
  const { status, serviceCode } = error
  if (status === undefined) {
    const code = networkCode(error.cause)
    return !CREDENTIALS.has(serviceCode) && (code === undefined || !NOT_CONNECTED.has(code))
  }
  if (status < 300) return true
  if (status < 500 || status === 501) return false
  return !(Object.hasOwn(CLASSES, serviceCode) || serviceCode === 'ServiceUnavailable')
}

function networkCode(error: unknown): string | undefined {
  let current: unknown = error
  for (let depth = 0; depth < 8 && current instanceof Error; depth++) {
    const code = systemCode(current)
    if (code !== undefined && NETWORK.has(code)) return code
    current = current.cause
  }
  return undefined
}

interface SdkFields {
  $metadata?: { httpStatusCode?: unknown; requestId?: unknown; extendedRequestId?: unknown }
  $response?: { statusCode?: unknown; headers?: Readonly<Record<string, unknown>> }
  Code?: unknown
  Region?: unknown
  name: string
}

function metadataOf(error: Error): { status: number | undefined; requestId: string | undefined } {
  const { $metadata, $response } = error as SdkFields
  const status = $metadata?.httpStatusCode ?? $response?.statusCode
  const requestId = $metadata?.requestId ?? $response?.headers?.['x-amz-request-id']
  return {
    status: typeof status === 'number' ? status : undefined,
    requestId: typeof requestId === 'string' && requestId !== '' ? requestId : undefined,
  }
}

function codeOf(error: Error): string {
  const { Code, name } = error as SdkFields
  return typeof Code === 'string' && Code !== '' ? Code : (networkCode(error) ?? name)
}

function describe(error: Error, code: string, status: number | undefined, requestId: string | undefined): string {
  const message = redactSecrets(error.message)
  const said = message === '' || message === code ? code : `${code}: ${message}`
  const facts = [
    ...(status === undefined ? [] : [`HTTP ${status}`]),
    ...(requestId === undefined ? [] : [`request ${requestId}`]),
  ]
  const region = regionOf(error, status)
  const hint = region === undefined ? '' : `; the bucket is in ${region}: set core.object_store.region`
  return `${said}${facts.length === 0 ? '' : ` (${facts.join(', ')})`}${hint}`
}

/** Where a refusal says that the bucket is, when it is elsewhere. */
function regionOf(error: Error, status: number | undefined): string | undefined {
  if (status !== 301 && status !== 307 && status !== 400) return undefined
  const { $response, Region } = error as SdkFields
  const region = $response?.headers?.['x-amz-bucket-region'] ?? Region
  return typeof region === 'string' && /^[a-z0-9-]+$/.test(region) ? region : undefined
}
