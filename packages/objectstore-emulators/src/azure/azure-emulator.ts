import { type ClientRequest, type IncomingMessage, request as httpRequest, type ServerResponse } from 'node:http'
import { type Fault, FaultPlan } from '../faults/index.ts'
import {
  ConnectionLost,
  delayOf,
  isLostAnswer,
  isSilent,
  loseConnection,
  openLoopbackServer,
  sendBody,
  statusOf,
  stayInSilence,
  uploadBody,
} from '../http/index.ts'
import { type AzuriteTls, startAzurite } from './azurite.ts'
import { ACCOUNT, ACCOUNT_KEY, type AzureClient, plainAzureClient } from './plain-client.ts'

export interface AzureEmulatorOptions {
  /** Containers that exist from the start. */
  containers?: readonly string[]
  /** Serve https, and take bearer tokens. Without faults and log. */
  tls?: AzuriteTls
}

/** A running emulator of Blob Storage: the vendor's own, behind a proxy with planned faults. */
export interface AzureEmulator {
  /** Of the account `devstoreaccount1`, no slash at the end. */
  url: string
  connectionString: string
  faults: FaultPlan
  /** Served requests, oldest first, as `operation key`. */
  log: readonly string[]
  /** Looks into containers past the proxy. */
  client: AzureClient
  close(): Promise<void>
}

/** Serves the Blob Storage REST API on loopback. */
export async function openAzureEmulator({ containers = [], tls }: AzureEmulatorOptions = {}): Promise<AzureEmulator> {
  const azurite = await startAzurite(tls)
  const client = plainAzureClient(azurite.url)
  const faults = new FaultPlan()
  const log: string[] = []
  const target = new URL(azurite.url)
  const proxy = await openLoopbackServer(async (request, response) => {
    const facts = factsOf(request)
    log.push(`${facts.operation} ${facts.key}`)
    await relay(target, request, response, faults.take(facts))
  })
  // Node.js would have to trust the certificate for that; tests with one make their containers themselves.
  for (const container of containers) await client.createContainer(container)
  const url = `${tls === undefined ? proxy.url : azurite.url}/${ACCOUNT}`
  return {
    url,
    connectionString: `DefaultEndpointsProtocol=${new URL(url).protocol.slice(0, -1)};AccountName=${ACCOUNT};AccountKey=${ACCOUNT_KEY};BlobEndpoint=${url};`,
    faults,
    log,
    client,
    close: async () => {
      await proxy.close()
      await azurite.close()
    },
  }
}

/** The vendor's name of the operation, and the blob's, or the prefix of a listing. */
function factsOf({ method, url = '' }: IncomingMessage): { operation: string; key: string } {
  const { pathname, searchParams } = new URL(url, 'http://emulator')
  const [, , , ...segments] = pathname.split('/')
  const key = segments.map(decodeURIComponent).join('/')
  const comp = searchParams.get('comp')
  if (comp === 'list') return { operation: 'List Blobs', key: searchParams.get('prefix') ?? '' }
  const puts = comp === 'block' ? 'Put Block' : comp === 'blocklist' ? 'Put Block List' : 'Put Blob'
  const operations: Record<string, string> = {
    GET: 'Get Blob',
    HEAD: 'Get Blob Properties',
    DELETE: 'Delete Blob',
    PUT: puts,
  }
  return { operation: operations[method ?? ''] ?? String(method), key }
}

async function relay(
  target: URL,
  request: IncomingMessage,
  response: ServerResponse,
  faults: readonly Fault[],
): Promise<void> {
  await delayOf(faults)
  if (isSilent(faults)) return stayInSilence(request)
  const refusal = statusOf(faults)
  if (refusal !== undefined) {
    request.resume()
    const headers = { 'x-ms-error-code': refusal.code, 'x-ms-request-id': 'planned', ...refusal.headers }
    response.writeHead(refusal.status, { 'content-type': 'application/xml', ...headers })
    const code = refusal.code.replaceAll('&', '&amp;')
    const message = `<Error><Code>${code}</Code><Message>planned</Message></Error>`
    response.end(request.method === 'HEAD' ? undefined : message)
    return
  }
  const answer = await forward(target, request, faults)
  const headers = { ...answer.headers }
  if (isLostAnswer(faults)) {
    for await (const _ of answer);
    loseConnection(request)
  }
  const length = headers['content-length']
  if (answer.statusCode !== undefined && answer.statusCode < 300 && request.method === 'GET' && length !== undefined) {
    const read = (bytes: number): AsyncIterable<Buffer> => firstBytes(answer, bytes)
    await sendBody(request, response, { status: answer.statusCode, headers, sizeBytes: Number(length), read }, faults)
    return
  }
  response.writeHead(answer.statusCode ?? 500, headers)
  for await (const chunk of answer) response.write(chunk)
  response.end()
}

/** What Azurite answers, once it has the whole body: half an upload is never applied. */
async function forward(target: URL, request: IncomingMessage, faults: readonly Fault[]): Promise<IncomingMessage> {
  const { method, url: path, headers } = request
  const { hostname, port } = target
  const onward = httpRequest({ hostname, port, method, path, headers })
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    onward.once('response', resolve).once('error', reject)
  })
  answered.catch(() => undefined)
  try {
    for await (const chunk of uploadBody(request, faults)) if (!onward.write(chunk)) await drained(onward)
  } catch (error) {
    onward.destroy()
    throw error
  }
  onward.end()
  try {
    return await answered
  } catch {
    throw new ConnectionLost()
  }
}

/** Resolves when there is room again, or nobody left to write to; a race of two waits would leave a listener each time. */
function drained(onward: ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      onward.off('drain', done).off('close', done)
      resolve()
    }
    onward.on('drain', done).on('close', done)
  })
}

async function* firstBytes(answer: IncomingMessage, bytes: number): AsyncGenerator<Buffer> {
  let left = bytes
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    yield chunk.subarray(0, left)
    left -= chunk.length
    if (left <= 0) return
  }
}
