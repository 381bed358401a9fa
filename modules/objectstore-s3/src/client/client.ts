import { readFileSync } from 'node:fs'
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { rootCertificates } from 'node:tls'
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import { configError, PROBE_CREATES, systemCode } from '@nexus/objectstore'
import { NodeHttpHandler } from '@smithy/node-http-handler'
import { watchAnswers } from './answers.ts'
import type { CredentialProvider } from './credentials.ts'
import type { S3Options } from '../options.ts'

/** The clients of one backend, over one pool of sockets. */
export interface Clients {
  /** Sends a request once: repeating is ours, where a pause holds no slot. */
  readonly plain: S3Client
  /** The same without a limit on silence: the sender of a body has its own. */
  readonly uploading: S3Client
  destroy(): void
}

/**
 * Makes the clients; no request is sent.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming `options.ca_file` when it can't be read
 */
export async function createClients(options: S3Options, credentials: CredentialProvider): Promise<Clients> {
  const agents = await agentsOf(options)
  const handler = (socketTimeout: number): NodeHttpHandler =>
    new NodeHttpHandler({ ...agents, connectionTimeout: options.connectTimeoutMs, socketTimeout })
  const mode = options.checksums === 'when_supported' ? 'WHEN_SUPPORTED' : 'WHEN_REQUIRED'
  const config: S3ClientConfig = {
    region: options.region,
    forcePathStyle: options.forcePathStyle,
    credentials,
    maxAttempts: 1,
    logger: SILENT,
    // Its body follows at once whatever the answer, with an agent of ours.
    expectContinueHeader: false,
    ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint.href }),
    ...(options.checksums === undefined ? {} : { requestChecksumCalculation: mode, responseChecksumValidation: mode }),
  }
  const plain = new S3Client({ ...config, requestHandler: handler(options.idleTimeoutMs) })
  const uploading = new S3Client({ ...config, requestHandler: handler(0) })
  for (const client of [plain, uploading]) watchAnswers(client)
  const destroy = (): void => {
    agents.httpAgent.destroy()
    agents.httpsAgent.destroy()
  }
  return { plain, uploading, destroy }
}

const drop = (): void => undefined
/** Without one the SDK writes to the console, about requests that we repeat ourselves. */
const SILENT = { trace: drop, debug: drop, info: drop, warn: drop, error: drop }

async function agentsOf({
  concurrency,
  caFile,
  proxy,
}: S3Options): Promise<{ httpAgent: HttpAgent; httpsAgent: HttpsAgent }> {
  // Requests are counted before they get here, and the probe of conditional creates needs its own however few are allowed.
  const maxSockets = Math.max(concurrency, PROBE_CREATES)
  const pool = { keepAlive: true, maxSockets, maxFreeSockets: concurrency }
  const trust = caFile === undefined ? {} : { ca: [...usualCertificates(), readCertificates(caFile)] }
  if (proxy === undefined) return { httpAgent: new HttpAgent(pool), httpsAgent: new HttpsAgent({ ...pool, ...trust }) }
  // Loaded by the few who need it.
  const { createProxyAgents } = await import('./proxy.ts')
  return createProxyAgents(proxy, pool, trust)
}

/** What Node trusts when it is told nothing; a list of our own takes the place of all of it. */
function usualCertificates(): string[] {
  const extra = process.env['NODE_EXTRA_CA_CERTS'] ?? ''
  try {
    return extra === '' ? [...rootCertificates] : [...rootCertificates, readFileSync(extra, 'utf8')]
  } catch {
    // Node itself has warned of it at start.
    return [...rootCertificates]
  }
}

function readCertificates(path: string): string {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const problem = systemCode(error) === 'ENOENT' ? 'does not exist' : 'can not be read'
    throw configError('options.ca_file', `names ${path}, which ${problem}`, error)
  }
  if (!text.includes('-----BEGIN CERTIFICATE-----')) {
    throw configError('options.ca_file', `names ${path}, which holds no PEM certificate`)
  }
  return text
}
