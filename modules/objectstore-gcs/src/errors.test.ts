import { describe, expect, it } from 'vitest'
import { answerError, classifyGcsError, GcsError, networkError } from './errors.ts'

function answered(status: number, reason: string, message: string): GcsError {
  const body = JSON.stringify({ error: { code: status, message, errors: [{ reason, message }] } })
  return answerError('objects.get', status, { 'x-guploader-uploadid': 'REQ-1' }, body)
}

describe('classifyGcsError', () => {
  it.each([
    [400, 'invalid', 'Invalid argument.', 'permanent'],
    [401, 'authError', 'Invalid Credentials', 'permission'],
    [403, 'forbidden', 'x does not have storage.objects.get access', 'permission'],
    [403, 'rateLimitExceeded', 'Rate Limit Exceeded', 'throttled'],
    [403, 'userRateLimitExceeded', 'User Rate Limit Exceeded', 'throttled'],
    // Of an object or of the bucket: `isMissingObject` finds out.
    [404, 'notFound', 'No such object: b/k', 'permanent'],
    [408, '', '', 'temporary'],
    [409, 'conflict', 'The conditional request conflicted', 'temporary'],
    [412, 'conditionNotMet', 'x', 'permanent'],
    [413, 'uploadTooLarge', 'x', 'permanent'],
    [429, 'rateLimitExceeded', 'x exceeded the rate limit', 'throttled'],
    [500, 'internalError', 'x', 'temporary'],
    [503, 'backendError', 'x', 'temporary'],
    [302, '', 'elsewhere', 'permanent'],
  ])('tells what %i %s "%s" means: %5$s', (status, reason, message, expected) => {
    expect(classifyGcsError(answered(status, reason, message))).toBe(expected)
  })

  it('takes lost connections for outages, lost credentials for missing rights', () => {
    const reset = Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
    expect(classifyGcsError(networkError('objects.get', reset))).toBe('temporary')
    expect(classifyGcsError(new GcsError('credentials', 'x', { kind: 'credentials', lost: true }))).toBe('permission')
    expect(classifyGcsError(new GcsError('credentials', 'x', { kind: 'credentials', lost: false }))).toBe('temporary')
  })

  it('does not wait for a certificate to become another', () => {
    for (const code of [
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      'ERR_TLS_CERT_ALTNAME_INVALID',
    ]) {
      const error = networkError('objects.get', Object.assign(new Error('x'), { code }))
      expect(classifyGcsError(error)).toBe('permanent')
    }
  })

  it('says nothing of errors that are not its own, whatever they are', () => {
    for (const value of [undefined, null, 'x', {}, new Error('x'), Object.assign(new Error('x'), { status: 503 })]) {
      expect(classifyGcsError(value)).toBeUndefined()
    }
  })
})

describe('the error of an answer', () => {
  it('names operation, status, reason, message and request', () => {
    expect(answered(503, 'backendError', 'Try again.').message).toBe(
      'objects.get was answered 503 backendError: Try again. (request REQ-1)',
    )
  })

  it('takes plain text and pages as they are, cut', () => {
    expect(answerError('objects.get', 404, {}, 'No such object: b/k').message).toContain('No such object: b/k')
    expect(answerError('objects.get', 502, {}, `<html>${'x'.repeat(10_000)}`).message.length).toBeLessThan(1000)
    expect(answerError('objects.get', 500, {}, '{"error": null}').message).toContain('500')
    expect(answerError('objects.get', 500, {}, '{"error": "text"}').message).toContain('500')
  })

  it('hides what looks like a credential in a message of the store', () => {
    const text = answered(400, 'invalid', 'bad header Authorization: Bearer ya29.abcdefghijklmnop').message
    expect(text).not.toContain('abcdefghijklmnop')
  })

  it('knows how long the store asks to wait', () => {
    expect(answerError('x', 503, { 'retry-after': '7' }, '').retryAfterMs).toBe(7000)
    expect(answerError('x', 503, { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }, '').retryAfterMs).toBeUndefined()
  })
})

describe('the error of a lost connection', () => {
  it.each([
    ['ECONNREFUSED', false],
    ['ENOTFOUND', false],
    ['CERT_HAS_EXPIRED', false],
    ['ECONNRESET', true],
    ['EPIPE', true],
    [undefined, true],
  ])('of code %s tells whether anything may have been sent: %s', (code, sent) => {
    const cause = code === undefined ? new Error('x') : Object.assign(new Error('x'), { code })
    const error = networkError('objects.insert', new Error('wrapped', { cause }))
    expect(error.failure).toEqual({ kind: 'network', code, sent })
    expect(error.code).toBe(code)
  })

  it('keeps nothing of what the transport threw', () => {
    const thrown = Object.assign(new Error('x'), { config: { headers: { Authorization: 'Bearer secret' } } })
    const error = networkError('objects.get', thrown)
    expect(error.cause).toBeUndefined()
    expect(JSON.stringify(error)).not.toContain('secret')
  })
})
