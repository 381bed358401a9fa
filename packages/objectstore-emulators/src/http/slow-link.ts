import { createServer, connect, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import type { LoopbackServer } from './loopback-server.ts'

/** How often bytes are let through, in ms. */
const TICK_MS = 10

/**
 * A link before an emulator that lets so many bytes a second through each way, shared fairly by all connections on it.
 *
 * @param target `http://127.0.0.1:PORT`
 */
export async function openSlowLink(target: string, bytesPerSecond: number): Promise<LoopbackServer> {
  const { hostname, port } = new URL(target)
  const up = new Direction(bytesPerSecond)
  const down = new Direction(bytesPerSecond)
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const store = connect(Number(port), hostname)
    for (const socket of [client, store]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => void sockets.delete(socket))
    }
    client.on('close', () => store.destroy())
    store.on('close', () => client.destroySoon())
    up.carry(client, store)
    down.carry(store, client)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const own = (server.address() as AddressInfo).port
  return {
    url: `http://127.0.0.1:${own}`,
    port: own,
    async close() {
      up.close()
      down.close()
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

interface Flow {
  from: Socket
  to: Socket
}

/** One way of the link: at each tick its bytes are divided among the flows that have something to carry. */
class Direction {
  readonly #flows = new Set<Flow>()
  readonly #perMs: number
  readonly #timer: NodeJS.Timeout
  #lastMs = performance.now()

  constructor(bytesPerSecond: number) {
    this.#perMs = bytesPerSecond / 1000
    this.#timer = setInterval(() => this.#tick(), TICK_MS)
  }

  carry(from: Socket, to: Socket): void {
    const flow = { from, to }
    this.#flows.add(flow)
    // Read on demand only, so that what the link has no room for waits at its sender.
    from.pause()
    from.on('readable', () => undefined)
    from.on('close', () => void this.#flows.delete(flow))
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #tick(): void {
    const nowMs = performance.now()
    let budget = Math.floor((nowMs - this.#lastMs) * this.#perMs)
    this.#lastMs = nowMs
    let busy = [...this.#flows].filter(({ from, to }) => from.readableLength > 0 && !to.writableNeedDrain)
    while (budget > 0 && busy.length > 0) {
      const share = Math.max(1, Math.floor(budget / busy.length))
      for (const { from, to } of busy) {
        const bytes = Math.min(share, from.readableLength, budget)
        const chunk = bytes === 0 ? null : (from.read(bytes) as Buffer | null)
        if (chunk === null) continue
        budget -= chunk.length
        to.write(chunk)
      }
      busy = busy.filter(({ from }) => from.readableLength > 0)
    }
  }
}
