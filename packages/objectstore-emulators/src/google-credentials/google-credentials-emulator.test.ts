import { createSign } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type GoogleCredentialsEmulator, openGoogleCredentials } from './index.ts'

let nowMs = Date.UTC(2026, 0, 1)
let credentials: GoogleCredentialsEmulator
let directory: string

beforeEach(async () => {
  credentials = await openGoogleCredentials({ now: () => nowMs })
  directory = mkdtempSync(join(tmpdir(), 'nexus-google-credentials-'))
})

afterEach(async () => {
  await credentials.close()
  rmSync(directory, { recursive: true })
})

interface Grant {
  status: number
  body: { access_token?: string; expires_in?: number; error?: string }
}

async function ask(form: Record<string, string>): Promise<Grant> {
  const answer = await fetch(credentials.tokenUrl, { method: 'POST', body: new URLSearchParams(form) })
  return { status: answer.status, body: (await answer.json()) as Grant['body'] }
}

function assertion(changes: Record<string, unknown> = {}): string {
  const path = join(directory, 'key.json')
  credentials.writeServiceAccountKey(path)
  const key = JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>
  const seconds = Math.floor(nowMs / 1000)
  const claims = {
    iss: key['client_email'],
    aud: 'https://oauth2.googleapis.com/token',
    iat: seconds,
    exp: seconds + 3600,
    ...changes,
  }
  const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${encode({ alg: 'RS256' })}.${encode(claims)}`
  return `${signed}.${createSign('RSA-SHA256')
    .update(signed)
    .sign(key['private_key'] ?? '', 'base64url')}`
}

const jwtBearer = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

describe('the token endpoint', () => {
  it('exchanges a signed assertion for a token that ends when it said', async () => {
    const { status, body } = await ask({ grant_type: jwtBearer, assertion: assertion() })
    expect(status).toBe(200)
    expect(body.expires_in).toBe(3600)
    expect(credentials.isGood(body.access_token)).toBe(true)
    nowMs += 3_600_000
    expect(credentials.isGood(body.access_token)).toBe(false)
  })

  it.each([
    ['of another account', { iss: 'stranger@example.org' }],
    ['for another audience', { aud: 'https://example.org' }],
    ['that has ended', { exp: 1 }],
  ])('refuses an assertion %s', async (_what, changes) => {
    const grant = await ask({ grant_type: jwtBearer, assertion: assertion(changes) })
    expect(grant).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
  })

  it('refuses an assertion whose signature is not of the key', async () => {
    const forged = `${assertion().split('.').slice(0, 2).join('.')}.AAAA`
    expect(await ask({ grant_type: jwtBearer, assertion: forged })).toMatchObject({ status: 400 })
  })

  it('refreshes the token of a user, and refuses a stranger', async () => {
    const path = join(directory, 'user.json')
    credentials.writeAuthorizedUser(path)
    const { type: _, ...user } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>
    expect(await ask({ grant_type: 'refresh_token', ...user })).toMatchObject({ status: 200 })
    const stranger = { grant_type: 'refresh_token', ...user, refresh_token: 'x' }
    expect(await ask(stranger)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
  })
})

describe('the metadata server', () => {
  const path = '/computeMetadata/v1/instance/service-accounts/default/token'

  it('gives tokens to those who know its header only', async () => {
    const url = `http://${credentials.metadataHost}${path}`
    expect((await fetch(url)).status).toBe(403)
    const answer = await fetch(url, { headers: { 'Metadata-Flavor': 'Google' } })
    expect(answer.headers.get('metadata-flavor')).toBe('Google')
    const { access_token: token } = (await answer.json()) as { access_token: string }
    expect(credentials.isGood(token)).toBe(true)
  })

  it('ends all tokens and gives no more when the account is lost, until it is back', async () => {
    const url = `http://${credentials.metadataHost}${path}`
    const headers = { 'Metadata-Flavor': 'Google' }
    const { access_token: token } = (await (await fetch(url, { headers })).json()) as { access_token: string }
    credentials.lose()
    expect(credentials.isGood(token)).toBe(false)
    expect((await fetch(url, { headers })).status).toBe(404)
    credentials.restore()
    expect((await fetch(url, { headers })).status).toBe(200)
  })
})
