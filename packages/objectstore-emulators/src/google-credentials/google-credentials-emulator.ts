import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { FaultPlan } from '../faults/index.ts'
import { delayOf, isSilent, openLoopbackServer, statusOf, stayInSilence } from '../http/index.ts'
import { GrantRefused, judgeGrant } from './grants.ts'
import { emulatedAccounts, writeAuthorizedUser, writeServiceAccountKey } from './key-files.ts'
import { type IssuedToken, TokenIssuer } from './token-issuer.ts'

export interface GoogleCredentialsOptions {
  /** Default: the time of day. */
  now?: () => number
  /** How long a token is good, in ms; default an hour. */
  lifetimeMs?: number
}

/** A running emulator of the places that Google's access tokens come from. */
export interface GoogleCredentialsEmulator {
  /** For `GCE_METADATA_HOST`: host and port. */
  metadataHost: string
  /** The OAuth token endpoint. */
  tokenUrl: string
  /** Operations: `metadata.ping`, `metadata.token`, `oauth.token`. */
  faults: FaultPlan
  issued(): readonly IssuedToken[]
  /** Whether a token is good now: what the store asks. */
  isGood(token: string | undefined): boolean
  setLifetime(lifetimeMs: number): void
  /** Ends every token and refuses new ones, as when an account is disabled or detached. */
  lose(): void
  /** Issues tokens again. */
  restore(): void
  writeServiceAccountKey(path: string): void
  writeAuthorizedUser(path: string): void
  close(): Promise<void>
}

/**
 * Serves the metadata server of Compute Engine and the OAuth token endpoint on loopback.
 *
 * @see https://cloud.google.com/compute/docs/metadata/overview
 * @see https://developers.google.com/identity/protocols/oauth2/service-account#httprest
 */
export async function openGoogleCredentials(
  options: GoogleCredentialsOptions = {},
): Promise<GoogleCredentialsEmulator> {
  const { now = () => Date.now(), lifetimeMs = 3_600_000 } = options
  const accounts = emulatedAccounts()
  const issuer = new TokenIssuer(now, lifetimeMs)
  const faults = new FaultPlan()
  let lost = false

  const serveMetadata = (path: string, operation: string, response: ServerResponse): void => {
    const flavor = { 'metadata-flavor': 'Google', server: 'Metadata Server for VM' }
    if (operation === 'metadata.token') {
      if (lost) return send(response, 404, 'The service account was not found.', flavor)
      return send(response, 200, issuer.issue('metadata'), flavor)
    }
    if (path === '/computeMetadata/v1/instance') return send(response, 200, 'attributes/\nservice-accounts/\n', flavor)
    if (path.endsWith('/email')) return send(response, 200, accounts.email, flavor)
    if (path === '/computeMetadata/v1/project/project-id') return send(response, 200, 'emulated', flavor)
    return send(response, 404, 'Not Found', flavor)
  }
  const serveToken = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      if (lost) throw new GrantRefused('invalid_grant', 'Account has been deleted')
      const source = judgeGrant(new URLSearchParams(await text(request)), accounts, now())
      send(response, 200, issuer.issue(source))
    } catch (error) {
      if (!(error instanceof GrantRefused)) throw error
      send(response, 400, { error: error.error, error_description: error.message })
    }
  }
  const server = await openLoopbackServer(async (request, response) => {
    const path = new URL(request.url ?? '/', 'http://loopback').pathname.replace(/\/$/, '')
    const operation = operationOf(path)
    const struck = faults.take({ operation, key: '' })
    await delayOf(struck)
    if (isSilent(struck)) return stayInSilence(request)
    const refusal = statusOf(struck)
    if (refusal !== undefined) return send(response, refusal.status, { error: refusal.code }, refusal.headers)
    if (operation === 'oauth.token' && request.method === 'POST') return serveToken(request, response)
    if (request.headers['metadata-flavor'] !== 'Google')
      return send(response, 403, 'Missing Metadata-Flavor:Google header.')
    return serveMetadata(path, operation, response)
  })
  return {
    metadataHost: `127.0.0.1:${server.port}`,
    tokenUrl: `${server.url}/token`,
    faults,
    issued: () => issuer.issued,
    isGood: (token) => issuer.isGood(token),
    setLifetime: (ms) => void (issuer.lifetimeMs = ms),
    lose: () => {
      lost = true
      issuer.revokeAll()
    },
    restore: () => void (lost = false),
    writeServiceAccountKey: (path) => writeServiceAccountKey(path, accounts, `${server.url}/token`),
    writeAuthorizedUser: (path) => writeAuthorizedUser(path, accounts),
    close: () => server.close(),
  }
}

function operationOf(path: string): string {
  if (path === '/token') return 'oauth.token'
  return path.endsWith('/token') ? 'metadata.token' : 'metadata.ping'
}

function send(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  const isText = typeof body === 'string'
  const content = isText ? body : JSON.stringify(body)
  response.writeHead(status, {
    'content-type': isText ? 'application/text' : 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(content),
    ...headers,
  })
  response.end(content)
}
