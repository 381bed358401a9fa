import { type IncomingMessage, request as httpRequest, type ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { type LoopbackServer, openLoopbackServer } from './loopback-server.ts'

/** How a proxy hands on what it has compressed. */
export type Compression =
  /** Without a length. */
  | 'chunked'
  /** With the length of what it sends. */
  | 'declared'
  /** Without a length, the entity tag made a weak one. */
  | 'weak-etag'

/** Answers to GET that are shorter stay as they are, as with the defaults of common proxies. */
const LEAST_BYTES = 1024

/**
 * A proxy before an emulator that compresses answers unasked, whatever `Accept-Encoding` says.
 *
 * @param target `http://127.0.0.1:PORT`
 * @param encoding what it calls its gzip
 */
export async function openCompressingProxy(
  target: string,
  compression: Compression,
  encoding = 'gzip',
): Promise<LoopbackServer> {
  const { hostname, port } = new URL(target)
  return openLoopbackServer(async (request: IncomingMessage, response: ServerResponse) => {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const { method, url: path, headers } = request
      const onward = httpRequest({ hostname, port, method, path, headers }, resolve)
      onward.on('error', reject)
      request.pipe(onward)
    })
    const chunks: Buffer[] = []
    for await (const chunk of answer as AsyncIterable<Buffer>) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    const { 'content-length': length, 'transfer-encoding': _, etag, ...headers } = answer.headers
    const status = answer.statusCode ?? 500
    const tag = etag === undefined ? {} : { etag }
    if (request.method !== 'GET' || body.length < LEAST_BYTES || answer.headers['content-encoding'] !== undefined) {
      response.writeHead(status, { ...headers, ...tag, ...(length === undefined ? {} : { 'content-length': length }) })
      response.end(body)
      return
    }
    const packed = gzipSync(body)
    response.writeHead(status, {
      ...headers,
      ...(compression === 'weak-etag' && etag !== undefined ? { etag: `W/${etag}` } : tag),
      'content-encoding': encoding,
      ...(compression === 'declared' ? { 'content-length': packed.length } : {}),
    })
    response.end(packed)
  })
}
