import { createVerify } from 'node:crypto'
import type { KnownAccounts } from './key-files.ts'
import type { TokenSource } from './token-issuer.ts'

/** A refused grant, in the form of RFC 6749, 5.2. */
export class GrantRefused extends Error {
  readonly error: string

  constructor(error: string, description: string) {
    super(description)
    this.name = 'GrantRefused'
    this.error = error
  }
}

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
// Two addresses of one endpoint.
const AUDIENCES = new Set<unknown>([
  'https://oauth2.googleapis.com/token',
  'https://www.googleapis.com/oauth2/v4/token',
])

/** Judges a request for a token. @throws GrantRefused */
export function judgeGrant(form: URLSearchParams, accounts: KnownAccounts, nowMs: number): TokenSource {
  const type = form.get('grant_type')
  if (type === JWT_BEARER) {
    checkAssertion(form.get('assertion') ?? '', accounts, nowMs)
    return 'service_account'
  }
  if (type !== 'refresh_token') throw new GrantRefused('unsupported_grant_type', `Invalid grant_type: ${String(type)}`)
  if (form.get('client_id') !== accounts.clientId || form.get('client_secret') !== accounts.clientSecret) {
    throw new GrantRefused('invalid_client', 'The OAuth client was not found.')
  }
  if (form.get('refresh_token') !== accounts.refreshToken) throw new GrantRefused('invalid_grant', 'Bad Request')
  return 'authorized_user'
}

// RFC 7523: who asks proves it by signing who it is, for whom, and for how long.
function checkAssertion(assertion: string, accounts: KnownAccounts, nowMs: number): void {
  const [header = '', payload = '', signature = ''] = assertion.split('.')
  const verifier = createVerify('RSA-SHA256').update(`${header}.${payload}`)
  if (!verifier.verify(accounts.publicKeyPem, signature, 'base64url')) {
    throw new GrantRefused('invalid_grant', 'Invalid JWT Signature.')
  }
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>
  if (claims['iss'] !== accounts.email) throw new GrantRefused('invalid_grant', 'Invalid grant: account not found')
  if (!AUDIENCES.has(claims['aud'])) throw new GrantRefused('invalid_grant', 'Invalid JWT audience.')
  const nowSeconds = nowMs / 1000
  const fresh = Number(claims['exp']) > nowSeconds && Number(claims['iat']) <= nowSeconds + 60
  if (!fresh) throw new GrantRefused('invalid_grant', 'Invalid JWT: Token must be a short-lived token.')
}
