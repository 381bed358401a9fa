import { randomUUID } from 'node:crypto'
import { openLoopbackServer } from '../http/index.ts'

/** The endpoint that Azure gives a machine with an identity of its own. */
export interface ManagedIdentity {
  /** To be set in the process that is to have it. */
  environment: { IDENTITY_ENDPOINT: string; IDENTITY_HEADER: string }
  /** How many tokens were given out. */
  issued(): number
  close(): Promise<void>
}

const RESOURCE = 'https://storage.azure.com'
const LIFETIME_S = 3600

/**
 * Serves tokens as App Service and Container Apps do. They carry no signature, which Azurite doesn't look at.
 *
 * @see https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
 */
export async function openManagedIdentity(): Promise<ManagedIdentity> {
  const secret = randomUUID()
  let issued = 0
  const server = await openLoopbackServer(async (request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://identity')
    const isOurs = request.headers['x-identity-header'] === secret && searchParams.get('resource') === RESOURCE
    response.writeHead(isOurs ? 200 : 400, { 'content-type': 'application/json' })
    const expires = Math.floor(Date.now() / 1000) + LIFETIME_S
    if (isOurs) issued++
    const token = { access_token: jwt(expires), expires_on: String(expires), resource: RESOURCE, token_type: 'Bearer' }
    response.end(JSON.stringify(isOurs ? token : { statusCode: 400, message: 'no identity for that' }))
  })
  return {
    environment: { IDENTITY_ENDPOINT: `${server.url}/msi/token`, IDENTITY_HEADER: secret },
    issued: () => issued,
    close: () => server.close(),
  }
}

function jwt(expires: number): string {
  const began = expires - LIFETIME_S
  const claims = {
    aud: RESOURCE,
    iss: 'https://sts.windows.net/00000000-0000-0000-0000-000000000000/',
    iat: began,
    nbf: began,
    exp: expires,
  }
  const parts = [{ alg: 'none', typ: 'JWT' }, claims].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  )
  return [...parts, 'unsigned'].join('.')
}
