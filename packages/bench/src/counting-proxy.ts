import { createServer, request as requestOf, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What a store was asked for, as a bill counts it. */
export interface Traffic {
  /** Requests by kind, e.g. `PUT: 3`. A listing is a GET of the bucket, billed like a PUT. */
  requests: Record<string, number>
  /** Bodies that went to the store. */
  sentBytes: number
  /** Bodies that came from it. */
  receivedBytes: number
}

/** Stands before a store on loopback, hands everything on unchanged, and counts. */
export interface CountingProxy {
  /** Asked instead of the store; no slash at the end. */
  url: string
  /** What was counted since the last call. */
  take(): Traffic
  close(): Promise<void>
}

/** @param target `http://127.0.0.1:PORT` */
export async function openCountingProxy(target: string): Promise<CountingProxy> {
  const { hostname, port } = new URL(target)
  let traffic = nothing()
  const handle = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    const kind = kindOf(incoming)
    traffic.requests[kind] = (traffic.requests[kind] ?? 0) + 1
    incoming.on('data', (chunk: Buffer) => (traffic.sentBytes += chunk.length))
    // The name of the host is signed, so that of the client is kept.
    const { method, url: path, headers } = incoming
    const onward = requestOf({ hostname, port, method, path, headers }, (answer) => {
      answer.on('data', (chunk: Buffer) => (traffic.receivedBytes += chunk.length))
      outgoing.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      answer.pipe(outgoing)
    })
    onward.once('error', () => outgoing.destroy())
    incoming.pipe(onward)
  }
  const server = createServer(handle)
  server.requestTimeout = 0
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    take() {
      const taken = traffic
      traffic = nothing()
      return taken
    },
    async close() {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()))
      server.closeAllConnections()
      await closed
    },
  }
}

/** All requests of a kind that stores bill alike: `dear` are writes and listings, `cheap` are reads. */
export function billed({ requests }: Traffic): { dear: number; cheap: number } {
  let dear = 0
  let cheap = 0
  for (const [kind, count] of Object.entries(requests)) {
    if (kind === 'PUT' || kind === 'POST' || kind === 'LIST') dear += count
    else if (kind !== 'DELETE') cheap += count
  }
  return { dear, cheap }
}

function nothing(): Traffic {
  return { requests: {}, sentBytes: 0, receivedBytes: 0 }
}

function kindOf({ method = '', url = '' }: IncomingMessage): string {
  const { pathname, searchParams } = new URL(url, 'http://localhost')
  const isBucket = pathname.split('/').filter((part) => part !== '').length <= 1
  if (method !== 'GET' || !isBucket) return method
  return searchParams.has('location') ? 'GET' : 'LIST'
}
