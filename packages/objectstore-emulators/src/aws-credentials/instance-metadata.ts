import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { awsTime, type CredentialIssuer } from './issuer.ts'
import { type EndpointAnswer, json, plain } from './endpoint-answer.ts'

const ROLE = 'nexus-role'
const CREDENTIALS_PATH = '/latest/meta-data/iam/security-credentials/'
const LONGEST_SECONDS = 21_600

/**
 * The instance metadata service, version 2 only: every read needs a token that was put first.
 *
 * @see https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html
 */
export class InstanceMetadata {
  readonly #issuer: CredentialIssuer
  readonly #tokens = new Map<string, number>()

  constructor(issuer: CredentialIssuer) {
    this.#issuer = issuer
  }

  operationOf({ method, url = '' }: IncomingMessage): string | undefined {
    if (url === '/latest/api/token') return method === 'PUT' ? 'imds.token' : 'imds.refused'
    if (!url.startsWith('/latest/meta-data/')) return undefined
    return url === CREDENTIALS_PATH ? 'imds.role' : 'imds.credentials'
  }

  answer(operation: string, request: IncomingMessage): EndpointAnswer {
    if (operation === 'imds.token') {
      const seconds = Number(request.headers['x-aws-ec2-metadata-token-ttl-seconds'])
      // What was forwarded has passed a proxy, which the service is there to refuse.
      if (request.headers['x-forwarded-for'] !== undefined) return plain(403, 'Forbidden')
      if (!(Number.isInteger(seconds) && seconds >= 1 && seconds <= LONGEST_SECONDS)) return plain(400, 'Bad Request')
      const token = randomBytes(32).toString('base64url')
      this.#tokens.set(token, Date.now() + seconds * 1000)
      return { ...plain(200, token), headers: { 'x-aws-ec2-metadata-token-ttl-seconds': String(seconds) } }
    }
    const token = String(request.headers['x-aws-ec2-metadata-token'] ?? '')
    if ((this.#tokens.get(token) ?? 0) <= Date.now()) return plain(401, 'Unauthorized')
    if (operation === 'imds.role') return plain(200, ROLE)
    if (request.url !== CREDENTIALS_PATH + ROLE) return plain(404, 'Not Found')
    const { accessKeyId, secretAccessKey, sessionToken, expiresAtMs } = this.#issuer.issue()
    return json(200, {
      Code: 'Success',
      Type: 'AWS-HMAC',
      LastUpdated: awsTime(Date.now()),
      AccessKeyId: accessKeyId,
      SecretAccessKey: secretAccessKey,
      Token: sessionToken,
      Expiration: awsTime(expiresAtMs),
    })
  }
}
