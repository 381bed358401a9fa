import { describe, expect, it } from 'vitest'
import { classifyAzureError, mayHaveHappened, toAzureError } from './errors.ts'

function answer(statusCode: number, code: string, headers: Record<string, string> = {}): Error {
  const all: Record<string, string> = { 'x-ms-error-code': code, 'x-ms-request-id': 'r-1', ...headers }
  const response = { headers: { get: (name: string) => all[name] } }
  return Object.assign(new Error('Server said no.\nRequestId:r-1'), { name: 'RestError', statusCode, response })
}

describe('an answer of the store', () => {
  it.each([
    [404, 'BlobNotFound', 'not-found'],
    [404, 'ContainerNotFound', 'permanent'],
    [404, '', 'permanent'],
    [401, 'NoAuthenticationInformation', 'permission'],
    [403, 'AuthorizationFailure', 'permission'],
    [409, 'BlobImmutableDueToPolicy', 'permission'],
    [409, 'PendingCopyOperation', 'temporary'],
    [409, 'BlobArchived', 'permanent'],
    [412, 'LeaseIdMissing', 'permanent'],
    [400, 'Md5Mismatch', 'temporary'],
    [429, 'TooManyRequests', 'throttled'],
    [503, 'ServerBusy', 'throttled'],
    [503, '', 'temporary'],
    [500, 'InternalError', 'temporary'],
    [200, '', 'temporary'],
    [400, 'InvalidHeaderValue', 'permanent'],
  ] as const)('%i %s is %s', (status, code, expected) => {
    expect(classifyAzureError(toAzureError('Put Blob', answer(status, code)))).toBe(expected)
  })

  it('is told in one line, with what the vendor asks for', () => {
    const error = toAzureError('Put Blob', answer(503, 'ServerBusy', { 'retry-after': '7' }))
    expect(error.message).toBe('Put Blob was answered 503 ServerBusy: Server said no. (request r-1)')
    expect(error.retryAfterMs).toBe(7000)
    expect(error.cause).toBeUndefined()
  })
})

describe('a failure without an answer', () => {
  it.each([
    ['ECONNREFUSED', 'temporary', false],
    ['ECONNRESET', 'temporary', true],
    ['CERT_HAS_EXPIRED', 'permanent', false],
    [undefined, 'temporary', true],
  ] as const)('with %s is %s, and may have happened: %s', (code, expected, happened) => {
    const error = toAzureError('Put Blob', new Error('it broke', { cause: Object.assign(new Error('lost'), { code }) }))
    expect(classifyAzureError(error)).toBe(expected)
    expect(mayHaveHappened(error)).toBe(happened)
  })

  it('of an authority is a lost permission where it refused, and an outage where it did not answer', () => {
    const refused = Object.assign(new Error('no'), { name: 'AuthenticationError', statusCode: 401 })
    const all = Object.assign(new Error('none'), { name: 'AggregateAuthenticationError', errors: [refused] })
    expect(classifyAzureError(toAzureError('List Blobs', all))).toBe('permission')
    process.env['IDENTITY_ENDPOINT'] = 'http://127.0.0.1:1'
    const silent = Object.assign(new Error('no answer'), { name: 'CredentialUnavailableError' })
    expect(classifyAzureError(toAzureError('List Blobs', silent))).toBe('temporary')
    delete process.env['IDENTITY_ENDPOINT']
    expect(classifyAzureError(toAzureError('List Blobs', silent))).toBe('permission')
    expect(mayHaveHappened(toAzureError('Put Blob', silent))).toBe(false)
  })
})
