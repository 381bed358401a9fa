import type { ServerResponse } from 'node:http'

/** An answer that is not a success, in the form of the JSON API. @see https://cloud.google.com/storage/docs/json_api/v1/status-codes */
export class ApiError extends Error {
  readonly status: number
  readonly reason: string
  readonly headers: Record<string, string>

  constructor(status: number, reason: string, message: string, headers: Record<string, string> = {}) {
    super(message)
    this.name = 'ApiError'
    this.status = status
    this.reason = reason
    this.headers = headers
  }
}

export function noSuchBucket(): ApiError {
  return new ApiError(404, 'notFound', 'The specified bucket does not exist.')
}

export function noSuchObject(bucket: string, name: string): ApiError {
  return new ApiError(404, 'notFound', `No such object: ${bucket}/${name}`)
}

export function conditionNotMet(): ApiError {
  return new ApiError(412, 'conditionNotMet', 'At least one of the pre-conditions you specified did not hold.')
}

export function rateLimited(bucket: string, name: string): ApiError {
  const message =
    `The object ${bucket}/${name} exceeded the rate limit for object mutation operations (create, update, and delete). ` +
    'Please reduce your request rate. See https://cloud.google.com/storage/docs/gcs429.'
  return new ApiError(429, 'rateLimitExceeded', message)
}

export function invalid(message: string): ApiError {
  return new ApiError(400, 'invalid', message)
}

/**
 * Sends the error. Media requests get its message as text, all others the JSON body.
 *
 * @param media whether the request was one for an object's content
 */
export function sendError(response: ServerResponse, error: ApiError, media: boolean): void {
  const { status, reason, message } = error
  const detail = { message, domain: 'global', reason }
  const body = media ? message : JSON.stringify({ error: { code: status, message, errors: [detail] } })
  response.writeHead(status, {
    'content-type': media ? 'text/html; charset=UTF-8' : 'application/json; charset=UTF-8',
    'content-length': Buffer.byteLength(body),
    'x-guploader-uploadid': `emulated-${status}`,
    ...error.headers,
  })
  response.end(body)
}
