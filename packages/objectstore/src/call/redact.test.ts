import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { objectStoreConfig } from '../config.ts'
import { redactError, redactSecrets } from './redact.ts'
import { hideConfiguredSecrets, hideSecrets } from './secret-values.ts'

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
    for (const value of [undefined, null, 'text', 5, {}, circular]) {
      expect(redactError(value)).toBe(value)
    }
  })

  it('gives a clean copy of what it may not write to, up to the error that was asked about', () => {
    class SdkError extends Error {}
    const readOnly = Object.defineProperties(new SdkError('refused'), {
      $response: { value: { statusCode: 403, headers: { 'x-echo': 'Signature=ab12' }, reason: 'secret: ab12' } },
      $responseBodyText: { value: 'aws_secret_access_key = ab12' },
    })
    const frozen = Object.freeze(new Error('secret: ab12', { cause: readOnly }))
    const list = new AggregateError([frozen], 'several')
    for (const error of [readOnly, frozen, list, new Error('outer', { cause: list })]) {
      const clean = redactError(error)
      expect(inspect(clean, { depth: 12, showHidden: true })).not.toContain('ab12')
      expect(clean).toBeInstanceOf(error.constructor)
    }
    expect(redactError(readOnly)).toMatchObject({ message: 'refused', $response: { statusCode: 403 } })
    expect((redactError(frozen).cause as Error).message).toBe('refused')
  })
})

describe('hideSecrets', () => {
  const secret = 'S3cret/Key+Value "quoted" & <x>'

  it.each<[string, (value: string) => string]>([
    ['as it is', (value) => value],
    ['percent-encoded', encodeURIComponent],
    [
      'percent-encoded in small letters',
      (value) => encodeURIComponent(value).replaceAll(/%../g, (x) => x.toLowerCase()),
    ],
    ['as a form', (value) => encodeURIComponent(value).replaceAll('%20', '+')],
    ['as JSON', (value) => JSON.stringify(value)],
    ['as JSON with escaped slashes', (value) => JSON.stringify(value).replaceAll('/', '\\/')],
    [
      'as XML',
      (value) =>
        value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;'),
    ],
    ['as base64', (value) => Buffer.from(value).toString('base64')],
    ['as base64url', (value) => Buffer.from(value).toString('base64url')],
  ])('hides a value %s', (_how, spell) => {
    hideSecrets(secret)
    const shown = redactSecrets(`the store says ${spell(secret)} to that`)
    expect(shown).toMatch(/^the store says "?\[redacted\]=*"? to that$/)
  })

  it('hides a value that lies across the end of what is kept', () => {
    hideSecrets('n0-patTern-knows-this')
    for (let before = 4060; before < 4100; before++) {
      const shown = redactSecrets(`${'-'.repeat(before)}n0-patTern-knows-this${'+'.repeat(9000)}`)
      expect(shown).not.toContain('n0-p')
      expect(shown.length).toBeLessThanOrEqual(4096)
    }
    // What was hidden before makes room for what was beyond the cut.
    const many = 'n0-patTern-knows-this,'.repeat(300)
    expect(redactSecrets(many)).not.toContain('n0-p')
  })

  it('hides what a configuration holds, and leaves words alone that are too short for a secret', () => {
    const config = objectStoreConfig({
      backend: 's3',
      endpoint: 'http://user:pa%2Fss-word@host',
      options: {
        proxy: 'http://prox:pr0xy-pass@host',
        secret_key: 'opt-secret',
        token: 'abc',
        storage_class: 'STANDARD_IA',
      },
    })
    hideConfiguredSecrets(config)
    expect(redactSecrets('pa/ss-word pa%2Fss-word pr0xy-pass opt-secret abc user STANDARD_IA')).toBe(
      '[redacted] [redacted] [redacted] [redacted] abc user STANDARD_IA',
    )
  })
})

describe('the cost of redaction', () => {
  it.each([
    'a.',
    'a-',
    'a+',
    'http://a/',
    'http://a',
    'authorization: a,a=a,',
    'authorization   ',
    'eyJaaaaaaaaaaa.',
    'eyJ-',
    '-----BEGIN PRIVATE KEY-----',
    '-----BEGIN ',
    'secret ',
    'secret=',
    'a=a, ',
    'AKIAAAAAAAAAAAAAAAA',
    '<Signature>',
    'Bearer ',
  ])('does not depend on how much more than 4 KiB of %j there is', (piece) => {
    const cost = (length: number): number => {
      const text = piece.repeat(length / piece.length)
      let best = Infinity
      for (let run = 0; run < 5; run++) {
        const start = performance.now()
        redactSecrets(text)
        best = Math.min(best, performance.now() - start)
      }
      return best
    }
    cost(4096)
    expect(redactSecrets(piece.repeat(1_000_000 / piece.length)).length).toBeLessThanOrEqual(4096)
    const [one, two, four] = [cost(1024), cost(2048), cost(4096)]
    // Quadratic is 16 times as much for four times the text; the milliseconds are for a machine that is busy.
    expect(four).toBeLessThan(8 * one + 2)
    expect(two).toBeLessThan(4 * one + 2)
    expect(cost(1_048_576)).toBeLessThan(4 * four + 5)
  })
})

describe('what an SDK hangs on its errors', () => {
  it('keeps plain values and drops requests with their headers, also in causes and in errors of several', () => {
    const sdkError = (): Error =>
      Object.assign(new Error('refused'), {
        statusCode: 403,
        authorization: 'SharedKey account:c2lnbmF0dXJl',
        request: {
          url: 'https://h/k?sig=abc',
          headers: { authorization: 'SharedKey account:c2lnbmF0dXJl' },
          token: 'tok-1',
        },
        response: { status: 403, body: 'aws_secret_access_key = wJalr' },
        send: () => 'SharedKey',
      })
    const error = new Error('outer', { cause: new AggregateError([sdkError(), sdkError()], 'both') })
    redactError(error)
    const shown = inspect(error, { depth: 12, showHidden: true })
    for (const leaked of ['c2lnbmF0dXJl', 'sig=abc', 'tok-1', 'wJalr']) expect(shown).not.toContain(leaked)
    const [first] = (error.cause as AggregateError).errors as Record<string, unknown>[]
    expect(first).toMatchObject({
      statusCode: 403,
      response: { status: 403 },
      request: { url: 'https://h/k?[redacted]' },
    })
  })
})
