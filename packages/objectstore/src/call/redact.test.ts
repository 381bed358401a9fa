import { describe, expect, it } from 'vitest'
import { redactError, redactSecrets } from './redact.ts'

describe('redactSecrets', () => {
  it.each([
    ['https://user:pa55@host/path', 'https://[redacted]@host/path'],
    ['proxy http://tok3n@host:3128 failed', 'proxy http://[redacted]@host:3128 failed'],
    ['GET https://b.s3.amazonaws.com/k?X-Amz-Signature=abc&x=1 403', 'GET https://b.s3.amazonaws.com/k?[redacted] 403'],
    [
      'Authorization: AWS4-HMAC-SHA256 Credential=AKIAX/2026/s3, SignedHeaders=host, Signature=ab12',
      'Authorization: [redacted]',
    ],
    ['{"authorization":"Bearer abcdefgh"}', '{"authorization":"[redacted]"}'],
    ['sent Bearer abc.def-ghi_123', 'sent Bearer [redacted]'],
    ['key AKIAIOSFODNN7EXAMPLE is unknown', 'key AKIA[redacted] is unknown'],
    ['key ASIAIOSFODNN7EXAMPLE is unknown', 'key ASIA[redacted] is unknown'],
    ['id GOOG1EABCDEFGHIJKLMNOPQRST denied', 'id GOOG1[redacted] denied'],
    ['token ya29.a0AfH6SM-x_y expired', 'token ya29.[redacted] expired'],
    ['jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln bad', 'jwt eyJ[redacted] bad'],
    ['aws_secret_access_key = wJalrXUtnFEMI/K7', 'aws_secret_access_key = [redacted]'],
    ['X-Amz-Security-Token: FwoGZXIvYXdz', 'X-Amz-Security-Token: [redacted]'],
    ['"private_key": "MIIEv"', '"private_key": "[redacted]"'],
    ['<AWSAccessKeyId>AK</AWSAccessKeyId>', '<AWSAccessKeyId>[redacted]</AWSAccessKeyId>'],
    ['<StringToSign>AWS4\n20260101</StringToSign>', '<StringToSign>[redacted]</StringToSign>'],
    [
      '-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----',
      '-----BEGIN RSA PRIVATE KEY-----[redacted]',
    ],
  ])('hides the secret of %j', (text, expected) => {
    expect(redactSecrets(text)).toBe(expected)
  })

  it.each([
    'The specified key does not exist.',
    'connect ECONNREFUSED 127.0.0.1:9000',
    "ENOENT: no such file or directory, open '/home/me/.aws/credentials'",
    'SignatureDoesNotMatch: The request signature we calculated does not match',
    'put of "sessions/a?b/c" on s3 failed',
    'https://storage.googleapis.com/bucket/key answered 503',
  ])('leaves %j alone', (text) => {
    expect(redactSecrets(text)).toBe(text)
  })
})

describe('redactError', () => {
  it('cleans the message and stack of an error and of its causes', () => {
    const inner = new Error('password=hunter2')
    const outer = new Error('secret: hunter2', { cause: inner })
    redactError(outer)
    for (const error of [inner, outer]) expect(`${error.message}${error.stack}`).not.toContain('hunter2')
  })

  it('copes with whatever can be thrown', () => {
    const circular = new Error('token=abc')
    circular.cause = circular
    const frozen = Object.freeze(new Error('secret: x'))
    for (const value of [undefined, null, 'text', 5, {}, circular, frozen]) {
      expect(() => redactError(value)).not.toThrow()
    }
  })
})
