import { type Agent, type IncomingMessage, request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { Readable } from 'node:stream'

/** What the SDK's transport hands to its fetch. */
interface TransferOptions {
  method?: string
  headers?: Record<string, string>
  body?: unknown
  agent?: Agent
  signal?: AbortSignal
}

/** What it wants back: the part of a fetch response that it looks at. */
interface TransferAnswer {
  status: number
  statusText: string
  headers: Headers
  body: IncomingMessage
  url: string
}

/**
 * One HTTP exchange, to be used in the place of the SDK's fetch. That one never notices a connection that is cut in the middle
 * of an answer, and unpacks gzipped content; this one ends with the connection, gives bytes as they come, and follows no
 * redirect, which might lead a token elsewhere.
 */
export async function transfer(url: unknown, options: TransferOptions = {}): Promise<TransferAnswer> {
  const target = new URL(String(url))
  const { method = 'GET', body, agent, signal } = options
  const headers = { ...options.headers, ...lengthHeader(method, body) }
  const send = target.protocol === 'https:' ? httpsRequest : httpRequest
  const request = send(target, {
    method,
    headers,
    ...(agent === undefined ? {} : { agent }),
    ...(signal === undefined ? {} : { signal }),
  })
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve)
    request.on('error', reject)
  })
  if (body instanceof Readable) body.pipe(request)
  else request.end(body)
  const answer = await answered
  // An answer that came before all was sent leaves a connection that can't be used again.
  answer.once('close', () => void (request.writableFinished || request.destroy()))
  return {
    status: answer.statusCode ?? 0,
    statusText: answer.statusMessage ?? '',
    headers: headersOf(answer),
    body: answer,
    url: target.href,
  }
}

function lengthHeader(method: string, body: unknown): Record<string, string> {
  if (body instanceof Readable) return {}
  if (typeof body === 'string') return { 'Content-Length': String(Buffer.byteLength(body)) }
  return method === 'GET' ? {} : { 'Content-Length': '0' }
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers()
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) headers.append(rawHeaders[i] ?? '', rawHeaders[i + 1] ?? '')
  return headers
}
