import type { IncomingMessage, ServerResponse } from 'node:http'
import { FaultPlan } from '../faults/index.ts'
import {
  delayOf,
  isLostAnswer,
  isSilent,
  loseConnection,
  openLoopbackServer,
  statusOf,
  stayInSilence,
} from '../http/index.ts'
import { CONTAINER_PATH, ContainerCredentials } from './container-credentials.ts'
import { type EndpointAnswer, plain } from './endpoint-answer.ts'
import { InstanceMetadata } from './instance-metadata.ts'
import { CredentialIssuer, type IssuedCredentials } from './issuer.ts'
import { SecurityTokenService } from './security-token-service.ts'

/**
 * Where AWS programs get their temporary keys from, on one port of loopback: the instance metadata service, the container
 * endpoint and STS. Faults are planned by operation: `imds.token`, `imds.role`, `imds.credentials`,
 * `container.credentials`, `sts.AssumeRoleWithWebIdentity`.
 */
export interface AwsCredentialEndpoints {
  /** For `AWS_EC2_METADATA_SERVICE_ENDPOINT` and `AWS_ENDPOINT_URL_STS`. */
  url: string
  /** For `AWS_CONTAINER_CREDENTIALS_FULL_URI`. */
  containerUrl: string
  faults: FaultPlan
  issuer: CredentialIssuer
  container: ContainerCredentials
  sts: SecurityTokenService
  /** The operations that were asked for, in order. */
  seen: string[]
  close(): Promise<void>
}

/**
 * @param lifetimeMs of the keys that are handed out
 * @param onIssue makes the keys known to a store
 */
export async function openAwsCredentialEndpoints({
  lifetimeMs = 3_600_000,
  onIssue = () => undefined,
}: {
  lifetimeMs?: number
  onIssue?: (credentials: IssuedCredentials) => void
} = {}): Promise<AwsCredentialEndpoints> {
  const faults = new FaultPlan()
  const issuer = new CredentialIssuer(lifetimeMs, onIssue)
  const imds = new InstanceMetadata(issuer)
  const container = new ContainerCredentials(issuer)
  const sts = new SecurityTokenService(issuer)
  const seen: string[] = []

  const answer = (operation: string, request: IncomingMessage): EndpointAnswer | Promise<EndpointAnswer> => {
    if (operation.startsWith('imds.')) return imds.answer(operation, request)
    if (operation.startsWith('container.')) return container.answer(request)
    return sts.answer(request)
  }
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const operation = imds.operationOf(request) ?? container.operationOf(request) ?? sts.operationOf(request)
    if (operation === undefined) return respond(response, plain(404, 'Not Found'))
    seen.push(operation)
    const planned = faults.take({ operation, key: '' })
    await delayOf(planned)
    if (isSilent(planned)) await stayInSilence(request)
    const refused = statusOf(planned)
    const answered = refused === undefined ? await answer(operation, request) : plain(refused.status, refused.code)
    if (isLostAnswer(planned)) loseConnection(request)
    respond(response, answered)
  }
  const server = await openLoopbackServer(handle)
  return {
    url: server.url,
    containerUrl: server.url + CONTAINER_PATH,
    faults,
    issuer,
    container,
    sts,
    seen,
    close: () => server.close(),
  }
}

function respond(response: ServerResponse, { status, headers = {}, contentType, body }: EndpointAnswer): void {
  const length = Buffer.byteLength(body)
  const date = new Date().toUTCString()
  response.writeHead(status, { ...headers, date, 'content-type': contentType, 'content-length': length })
  response.end(body)
}
