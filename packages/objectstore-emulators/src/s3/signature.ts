import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Address } from './address.ts'
import { Refusal } from './refusal.ts'

/** Keys that the store knows. */
export interface KnownCredentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string
  /** Refused from then on, in ms since the epoch. */
  expiresAtMs?: number
}

const SKEW_MS = 15 * 60 * 1000

/**
 * Checks a Signature Version 4 in the header.
 *
 * @returns the region that it was made for
 * @see https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
 */
export function verifySignature(
  request: IncomingMessage,
  { rawPath, query }: Address,
  known: ReadonlyMap<string, KnownCredentials>,
  nowMs: number,
): string {
  const header = request.headers.authorization ?? ''
  const parts = /^AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(header)
  if (parts === null) throw new Refusal(403, 'AccessDenied', 'Access Denied')
  const [, scope = '', signedNames = '', signature = ''] = parts
  const [accessKeyId = '', date = '', region = '', service = ''] = scope.split('/')
  const credentials = known.get(accessKeyId)
  if (credentials === undefined) {
    const message = 'The AWS Access Key Id you provided does not exist in our records.'
    throw new Refusal(403, 'InvalidAccessKeyId', message, { fields: { AWSAccessKeyId: accessKeyId } })
  }
  const token = request.headers['x-amz-security-token']
  if (token !== credentials.sessionToken) throw new Refusal(400, 'InvalidToken', 'The provided token is malformed.')
  if (credentials.expiresAtMs !== undefined && nowMs >= credentials.expiresAtMs) {
    throw new Refusal(400, 'ExpiredToken', 'The provided token has expired.')
  }
  const timestamp = one(request, 'x-amz-date')
  checkClock(timestamp, nowMs)
  const payload = one(request, 'x-amz-content-sha256')
  const canonical = [
    request.method,
    canonicalPath(rawPath),
    canonicalQuery(query),
    ...signedNames.split(';').map((name) => `${name}:${one(request, name).trim().replaceAll(/\s+/g, ' ')}`),
    '',
    signedNames,
    payload,
  ].join('\n')
  const scopeText = `${date}/${region}/${service}/aws4_request`
  const toSign = ['AWS4-HMAC-SHA256', timestamp, scopeText, createHash('sha256').update(canonical).digest('hex')].join(
    '\n',
  )
  const key = [date, region, service, 'aws4_request'].reduce<string | Buffer>(
    (secret, part) => createHmac('sha256', secret).update(part).digest(),
    `AWS4${credentials.secretAccessKey}`,
  )
  const expected = createHmac('sha256', key).update(toSign).digest()
  if (!timingSafeEqual(expected, Buffer.from(signature, 'hex'))) {
    const message = 'The request signature we calculated does not match the signature you provided.'
    throw new Refusal(403, 'SignatureDoesNotMatch', message)
  }
  return region
}

function checkClock(timestamp: string, nowMs: number): void {
  const at = Date.parse(timestamp.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  if (Math.abs(at - nowMs) <= SKEW_MS) return
  throw new Refusal(
    403,
    'RequestTimeTooSkewed',
    'The difference between the request time and the current time is too large.',
  )
}

function one(request: IncomingMessage, name: string): string {
  const value = request.headers[name]
  return Array.isArray(value) ? value.join(',') : (value ?? '')
}

function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
}

function canonicalPath(rawPath: string): string {
  return rawPath
    .split('/')
    .map((segment) => encode(decodeURIComponent(segment)))
    .join('/')
}

function canonicalQuery(query: URLSearchParams): string {
  return [...query]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .toSorted((a, b) => (a < b ? -1 : 1))
    .join('&')
}
