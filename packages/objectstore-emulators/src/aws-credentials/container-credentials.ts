import type { IncomingMessage } from 'node:http'
import { awsTime, type CredentialIssuer } from './issuer.ts'
import { type EndpointAnswer, json } from './endpoint-answer.ts'

/** Where the endpoint is, below the server's URL. */
export const CONTAINER_PATH = '/v1/credentials'

/**
 * The endpoint of ECS tasks and EKS pods: one URL, with the token of a file where the pod has one.
 *
 * @see https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
 */
export class ContainerCredentials {
  /** What the `Authorization` header must be; undefined: nothing is looked at. */
  authorizationToken: string | undefined
  readonly #issuer: CredentialIssuer

  constructor(issuer: CredentialIssuer) {
    this.#issuer = issuer
  }

  operationOf({ url = '' }: IncomingMessage): string | undefined {
    return url === CONTAINER_PATH ? 'container.credentials' : undefined
  }

  answer(request: IncomingMessage): EndpointAnswer {
    if (this.authorizationToken !== undefined && request.headers.authorization !== this.authorizationToken) {
      return json(401, { code: 'InvalidToken', message: 'the authorization token is not that of this pod' })
    }
    const { accessKeyId, secretAccessKey, sessionToken, expiresAtMs } = this.#issuer.issue()
    return json(200, {
      AccessKeyId: accessKeyId,
      SecretAccessKey: secretAccessKey,
      Token: sessionToken,
      Expiration: awsTime(expiresAtMs),
      AccountId: '123456789012',
    })
  }
}
