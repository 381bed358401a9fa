import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { ConnectionLost } from './faulty-exchange.ts'

export interface LoopbackServerOptions {
  /** PEM texts: serve https. */
  tls?: { key: string; cert: string }
}

/** A server on a free port of 127.0.0.1. */
export interface LoopbackServer {
  /** `http://127.0.0.1:PORT`, no slash at the end. */
  url: string
  port: number
  /** Drops every connection and stops. */
  close(): Promise<void>
}

/**
 * Serves on loopback. A handler that throws {@link ConnectionLost} has lost its client on purpose; any other error is a fault
 * of the emulator itself: the connection is reset and `close` rejects with it, so that no test passes over it.
 */
export async function openLoopbackServer(
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
  { tls }: LoopbackServerOptions = {},
): Promise<LoopbackServer> {
  const faults: unknown[] = []
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    handle(request, response).catch((error: unknown) => {
      // A client that went away is the client's affair.
      if (!(error instanceof ConnectionLost) && !request.socket.destroyed) faults.push(error)
      request.socket.destroy()
    })
  }
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener)
  // A planned stall may last longer than the default limits of node:http.
  server.requestTimeout = 0
  server.headersTimeout = 0
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    port,
    async close() {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()))
      server.closeAllConnections()
      await closed
      if (faults.length > 0) throw new AggregateError(faults, 'the emulator itself failed')
    },
  }
}
