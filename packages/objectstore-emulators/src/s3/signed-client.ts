import { createHash, createHmac } from 'node:crypto'
import { type IncomingHttpHeaders, request as httpRequest } from 'node:http'

/** What one request differs in from a plain one. */
export interface SignedRequest {
  query?: Record<string, string>
  headers?: Record<string, string>
  body?: string | Uint8Array
  /** Instead of the body's true digest. */
  payloadHash?: string
  accessKeyId?: string
  secretAccessKey?: string
  unsigned?: boolean
}

/** An answer, its body as text. */
export interface SignedAnswer {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

/** Sends one signed request; the path is encoded already. */
export type SignedClient = (method: string, path: string, options?: SignedRequest) => Promise<SignedAnswer>

/** A client with nothing between it and the wire, for what no SDK would send. */
export function createSignedClient(
  endpoint: string,
  keys: { accessKeyId: string; secretAccessKey: string },
  region = 'us-east-1',
): SignedClient {
  const { hostname, port, host } = new URL(endpoint)
  return async (method, path, options = {}) => {
    const { query = {}, body = '', unsigned = false } = options
    const payload = options.payloadHash ?? sha256(body)
    const at = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '')
    const headers: Record<string, string> = {
      ...options.headers,
      host,
      'x-amz-content-sha256': payload,
      'x-amz-date': at,
    }
    const canonicalQuery = Object.entries(query)
      .map(([name, value]) => `${encode(name)}=${encode(value)}`)
      .toSorted()
      .join('&')
    if (!unsigned) {
      const names = Object.keys(headers).toSorted()
      const canonicalPath = path
        .split('/')
        .map((segment) => encode(decodeURIComponent(segment)))
        .join('/')
      const canonical = [
        method,
        canonicalPath,
        canonicalQuery,
        ...names.map((name) => `${name}:${headers[name] ?? ''}`),
        '',
        names.join(';'),
        payload,
      ].join('\n')
      const scope = `${at.slice(0, 8)}/${region}/s3/aws4_request`
      const key = scope
        .split('/')
        .reduce<string | Buffer>(
          (secret, part) => createHmac('sha256', secret).update(part).digest(),
          `AWS4${options.secretAccessKey ?? keys.secretAccessKey}`,
        )
      const toSign = ['AWS4-HMAC-SHA256', at, scope, sha256(canonical)].join('\n')
      const signature = createHmac('sha256', key).update(toSign).digest('hex')
      const credential = `${options.accessKeyId ?? keys.accessKeyId}/${scope}`
      headers.authorization = `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names.join(';')}, Signature=${signature}`
    }
    const length = { 'content-length': String(Buffer.byteLength(body)) }
    const sentPath = canonicalQuery === '' ? path : `${path}?${canonicalQuery}`
    return new Promise<SignedAnswer>((resolve, reject) => {
      const sent = httpRequest(
        { host: hostname, port, method, path: sentPath, headers: { ...headers, ...length }, agent: false },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('error', reject)
          response.on('end', () => {
            const text = Buffer.concat(chunks).toString()
            resolve({ status: response.statusCode ?? 0, headers: response.headers, text })
          })
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })
  }
}

function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex')
}

function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
}
