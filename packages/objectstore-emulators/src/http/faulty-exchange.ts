import { once } from 'node:events'
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault, FaultKind } from '../faults/fault-plan.ts'

/** The connection was dropped, by plan or by the client: there is no one to answer. */
export class ConnectionLost extends Error {
  constructor() {
    super('the connection is gone')
    this.name = 'ConnectionLost'
  }
}

function find<K extends FaultKind>(faults: readonly Fault[], kind: K): Extract<Fault, { kind: K }> | undefined {
  return faults.find((fault): fault is Extract<Fault, { kind: K }> => fault.kind === kind)
}

/** Waits out the planned latency, if any. */
export async function delayOf(faults: readonly Fault[]): Promise<void> {
  const latency = find(faults, 'latency')
  if (latency !== undefined) await sleep(latency.delayMs)
}

/** The refusal that was planned, to be answered in the server's own error format. */
export function statusOf(faults: readonly Fault[]): Extract<Fault, { kind: 'status' }> | undefined {
  return find(faults, 'status')
}

export function isSilent(faults: readonly Fault[]): boolean {
  return find(faults, 'silence') !== undefined
}

/** Asked once the request was applied, before it is answered. */
export function isLostAnswer(faults: readonly Fault[]): boolean {
  return find(faults, 'lost-answer') !== undefined
}

/** Resets the connection. */
export function loseConnection(request: IncomingMessage): never {
  request.socket.destroy()
  throw new ConnectionLost()
}

async function hold(request: IncomingMessage): Promise<never> {
  if (!request.socket.destroyed) await once(request.socket, 'close')
  throw new ConnectionLost()
}

/**
 * The request's body with its planned faults. Throws {@link ConnectionLost} when the connection ends before the body does, so
 * that half an upload is never applied.
 */
export async function* uploadBody(request: IncomingMessage, faults: readonly Fault[]): AsyncGenerator<Buffer> {
  const reset = find(faults, 'upload-reset')
  const stall = find(faults, 'upload-stall')
  const cutAfter = reset?.afterBytes ?? stall?.afterBytes ?? Number.POSITIVE_INFINITY
  let arrived = 0
  try {
    // Left as it is when the loop ends early: a request that was destroyed has no socket to reset any more.
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      arrived += chunk.length
      if (arrived >= cutAfter) break
      yield chunk
    }
  } catch {
    throw new ConnectionLost()
  }
  if (arrived >= cutAfter) {
    if (reset !== undefined) loseConnection(request)
    await hold(request)
  }
  if (!request.complete) throw new ConnectionLost()
}

/** Never answers; ends when the client gives up. */
export function stayInSilence(request: IncomingMessage): Promise<never> {
  return hold(request)
}

/** Resolves when there is room again, or nobody left to write to; a race of two waits would leave a listener each time. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.on('drain', done).on('close', done)
  })
}

/** Answers with a body of `sizeBytes`, read from `open(bytes)`, with the planned faults of downloads. */
export async function sendBody(
  request: IncomingMessage,
  response: ServerResponse,
  answer: {
    status: number
    headers: OutgoingHttpHeaders
    sizeBytes: number
    read: (bytes: number) => AsyncIterable<Buffer>
  },
  faults: readonly Fault[],
): Promise<void> {
  const sizeBytes = Math.min(find(faults, 'download-short')?.bytes ?? answer.sizeBytes, answer.sizeBytes)
  const reset = find(faults, 'download-reset')
  const cutAfter = Math.min(reset?.afterBytes ?? find(faults, 'download-stall')?.afterBytes ?? sizeBytes, sizeBytes)
  response.writeHead(answer.status, { ...answer.headers, 'content-length': sizeBytes })
  for await (const chunk of answer.read(cutAfter)) {
    if (!response.write(chunk)) await drained(response)
    if (response.destroyed) throw new ConnectionLost()
  }
  if (cutAfter === sizeBytes) {
    response.end()
    return
  }
  // Headers and the first bytes must have left before the connection is cut.
  response.flushHeaders()
  if (reset !== undefined) {
    await new Promise((resolve) => setImmediate(resolve))
    loseConnection(request)
  }
  await hold(request)
}
