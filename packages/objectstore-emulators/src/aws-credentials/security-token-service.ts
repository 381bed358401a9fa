import type { IncomingMessage } from 'node:http'
import { awsTime, type CredentialIssuer } from './issuer.ts'
import { type EndpointAnswer, xml } from './endpoint-answer.ts'

const NAMESPACE = 'https://sts.amazonaws.com/doc/2011-06-15/'

/**
 * The one call of STS that workload identity needs.
 *
 * @see https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
 */
export class SecurityTokenService {
  /** The web identity token that is taken; may be changed, as the platform rotates it. */
  webIdentityToken = 'web-identity-token'
  readonly #issuer: CredentialIssuer

  constructor(issuer: CredentialIssuer) {
    this.#issuer = issuer
  }

  operationOf({ method, url = '' }: IncomingMessage): string | undefined {
    return method === 'POST' && url === '/' ? 'sts.AssumeRoleWithWebIdentity' : undefined
  }

  async answer(request: IncomingMessage): Promise<EndpointAnswer> {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    const call = new URLSearchParams(Buffer.concat(chunks).toString())
    if (call.get('Action') !== 'AssumeRoleWithWebIdentity') return refusal(400, 'InvalidAction')
    if ((call.get('RoleArn') ?? '') === '') return refusal(400, 'ValidationError')
    if (call.get('WebIdentityToken') !== this.webIdentityToken) return refusal(400, 'InvalidIdentityToken')
    const { accessKeyId, secretAccessKey, sessionToken, expiresAtMs } = this.#issuer.issue()
    const credentials = [
      `<AccessKeyId>${accessKeyId}</AccessKeyId>`,
      `<SecretAccessKey>${secretAccessKey}</SecretAccessKey>`,
      `<SessionToken>${sessionToken}</SessionToken>`,
      `<Expiration>${awsTime(expiresAtMs)}</Expiration>`,
    ].join('')
    const user = `<AssumedRoleUser><Arn>${call.get('RoleArn')}/session</Arn><AssumedRoleId>ROLE:session</AssumedRoleId></AssumedRoleUser>`
    const result = `<AssumeRoleWithWebIdentityResult>${user}<Credentials>${credentials}</Credentials></AssumeRoleWithWebIdentityResult>`
    const metadata = '<ResponseMetadata><RequestId>request</RequestId></ResponseMetadata>'
    return xml(
      200,
      `<AssumeRoleWithWebIdentityResponse xmlns="${NAMESPACE}">${result}${metadata}</AssumeRoleWithWebIdentityResponse>`,
    )
  }
}

function refusal(status: number, code: string): EndpointAnswer {
  const error = `<Error><Type>Sender</Type><Code>${code}</Code><Message>refused</Message></Error>`
  return xml(status, `<ErrorResponse xmlns="${NAMESPACE}">${error}<RequestId>request</RequestId></ErrorResponse>`)
}
