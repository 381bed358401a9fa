import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Fault } from '../faults/index.ts'
import { ConnectionLost, loseConnection } from '../http/index.ts'

/**
 * The bytes of an upload with its planned faults. The connection stays open when they stop: a reset is a reset then, and a
 * stall is silence.
 *
 * @throws ConnectionLost when the connection ends before the body does, so that half an upload is never applied
 */
export async function* requestBody(request: IncomingMessage, faults: readonly Fault[]): AsyncGenerator<Buffer> {
  const cut = faults.find(({ kind }) => kind === 'upload-reset' || kind === 'upload-stall')
  const cutAfter = cut !== undefined && 'afterBytes' in cut ? cut.afterBytes : Number.POSITIVE_INFINITY
  let arrived = 0
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      yield chunk.subarray(0, cutAfter - arrived)
      arrived += chunk.length
      if (arrived >= cutAfter) break
    }
  } catch {
    throw new ConnectionLost()
  }
  if (arrived < cutAfter) {
    if (!request.complete) throw new ConnectionLost()
    return
  }
  if (cut?.kind === 'upload-reset') loseConnection(request)
  if (!request.socket.destroyed) await once(request.socket, 'close')
  throw new ConnectionLost()
}
