import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { classifyS3Error, mayHaveHappened, S3RequestError, toRequestError } from './errors.ts'

function answered(status: number, code: string): S3RequestError {
  const cause = Object.assign(new Error('said the store'), { name: code, $metadata: { httpStatusCode: status } })
  return new S3RequestError('PutObject', 'k', cause)
}

function broken(code: string): S3RequestError {
  return new S3RequestError('PutObject', 'k', Object.assign(new Error(code), { code }))
}

describe('the class of an error', () => {
  it.each([
    [503, 'SlowDown', 'throttled'],
    [429, 'Whatever', 'throttled'],
    [403, 'AccessDenied', 'permission'],
    [400, 'ExpiredToken', 'permission'],
    [400, 'InvalidToken', 'permission'],
    [403, 'SignatureDoesNotMatch', 'permission'],
    [403, 'RequestTimeTooSkewed', 'temporary'],
    [404, 'NoSuchKey', 'not-found'],
    [404, 'NoSuchBucket', 'permanent'],
    [404, 'NotFound', 'permanent'],
    [404, 'NoSuchUpload', 'temporary'],
    [301, 'PermanentRedirect', 'permanent'],
    [307, 'TemporaryRedirect', 'temporary'],
    [409, 'ConditionalRequestConflict', 'temporary'],
    [409, 'OperationAborted', 'temporary'],
    [400, 'RequestTimeout', 'temporary'],
    [400, 'BadDigest', 'temporary'],
    [400, 'EntityTooLarge', 'permanent'],
    [500, 'InternalError', 'temporary'],
    [502, 'BadGateway', 'temporary'],
    [501, 'NotImplemented', 'permanent'],
    [200, 'SyntaxError', 'temporary'],
  ])('of HTTP %d %s is %s', (status, code, expected) => {
    expect(classifyS3Error(answered(status, code))).toBe(expected)
  })

  it.each(['ECONNRESET', 'ECONNREFUSED', 'ENOTFOUND', 'EPIPE', 'CERT_HAS_EXPIRED'])('of %s is temporary', (code) => {
    expect(classifyS3Error(broken(code))).toBe('temporary')
  })

  it('is unknown for what is not the store’s', () => {
    expect(classifyS3Error(new TypeError('a bug'))).toBeUndefined()
    expect(toRequestError(new TypeError('a bug'), 'PutObject', 'k')).toBeInstanceOf(TypeError)
  })
})

it('keeps nothing that a store repeats of the request, nor the request', () => {
  const told = {
    AWSAccessKeyId: 'AKIA-1',
    'Token-0': 'the-session-token',
    StringToSign: 'the-string',
    $response: { body: 'the-body' },
  }
  const cause = Object.assign(
    new Error('said the store'),
    { name: 'SignatureDoesNotMatch', $metadata: { httpStatusCode: 403 } },
    told,
  )
  const shown = inspect(new S3RequestError('PutObject', 'k', cause), { depth: 20, showHidden: true })
  for (const secret of ['AKIA-1', 'the-session-token', 'the-string', 'the-body']) expect(shown).not.toContain(secret)
  expect(shown).toContain('SignatureDoesNotMatch')
})

describe('a failed write', () => {
  it.each([
    [broken('ECONNRESET'), true],
    [broken('EPIPE'), true],
    [broken('ECONNREFUSED'), false],
    [broken('ENOTFOUND'), false],
    [answered(500, 'InternalError'), true],
    [answered(504, 'GatewayTimeout'), true],
    [answered(503, 'SlowDown'), false],
    [answered(503, 'ServiceUnavailable'), false],
    [answered(200, 'SyntaxError'), true],
    [answered(409, 'ConditionalRequestConflict'), false],
    [answered(403, 'AccessDenied'), false],
  ])('%s may have happened: %s', (error, expected) => {
    expect(mayHaveHappened(error)).toBe(expected)
  })
})

describe('the message', () => {
  it('names operation, key, code, status and request', () => {
    const metadata = { httpStatusCode: 403, requestId: 'TX1' }
    const cause = Object.assign(new Error('Access Denied'), { name: 'AccessDenied', $metadata: metadata })
    const error = new S3RequestError('GetObject', 'a/b', cause)
    expect(error.message).toBe('GetObject of "a/b": AccessDenied: Access Denied (HTTP 403, request TX1)')
    expect(error.cause).toBe(cause)
  })

  it('says where the bucket is when it is elsewhere', () => {
    const response = { headers: { 'x-amz-bucket-region': 'eu-central-1' } }
    const facts = { name: 'PermanentRedirect', $metadata: { httpStatusCode: 301 }, $response: response }
    const error = new S3RequestError('GetObject', 'k', Object.assign(new Error('moved'), facts))
    expect(error.message).toContain('set core.object_store.region')
    expect(error.message).toContain('eu-central-1')
  })

  it('hides what looks like a credential', () => {
    const cause = Object.assign(new Error('key AKIAIOSFODNN7EXAMPLE is unknown'), { code: 'ECONNRESET' })
    expect(new S3RequestError('PutObject', 'k', cause).message).not.toContain('IOSFODNN7EXAMPLE')
  })
})
