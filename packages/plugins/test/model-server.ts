import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

/** What a server of a model does with one request. */
export type Behaviour = (response: ServerResponse, request: IncomingMessage) => void | Promise<void>

/** A server on loopback that treats its requests as told, one after the other; the last behaviour is that of all further ones. */
export async function modelServer(behaviours: readonly Behaviour[]): Promise<{
  baseUrl: string
  bodies: Record<string, unknown>[]
  headers: IncomingMessage['headers'][]
}> {
  const bodies: Record<string, unknown>[] = []
  const headers: IncomingMessage['headers'][] = []
  const server = createServer((request, response) => {
    void (async () => {
      headers.push(request.headers)
      const at = bodies.push(JSON.parse(await text(request)) as Record<string, unknown>) - 1
      await behaviours[Math.min(at, behaviours.length - 1)]?.(response, request)
    })()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, bodies, headers }
}

/** A chunk of a streamed answer, as it goes over the wire. */
export function chunk(delta: object, more: object = {}): string {
  const choice = { index: 0, delta, finish_reason: null, ...more }
  return `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm-1', choices: [choice] })}\n\n`
}

export const usageChunk: string = `data: ${JSON.stringify({
  id: 'x',
  model: 'm-1',
  choices: [],
  usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 },
})}\n\n`

export function beginStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
}

/** A whole streamed answer. */
export function streamed(...texts: string[]): Behaviour {
  return (response) => {
    beginStream(response)
    for (const each of texts) response.write(chunk({ content: each }))
    response.end(`${chunk({}, { finish_reason: 'stop' })}${usageChunk}data: [DONE]\n\n`)
  }
}

export function failing(status: number, message: string, headers: Record<string, string> = {}): Behaviour {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', 'retry-after-ms': '1', ...headers })
    response.end(JSON.stringify({ error: { message, type: 'x' } }))
  }
}

/** Begins an answer, then does something else. */
export function breaking(then: (response: ServerResponse) => void): Behaviour {
  return (response) => {
    beginStream(response)
    response.write(chunk({ content: 'lost ' }))
    setTimeout(() => then(response), 10)
  }
}
