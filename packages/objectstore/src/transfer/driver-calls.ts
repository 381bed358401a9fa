import { NexusError } from '@nexus/errors'
import type { OpOptions } from '../driver.ts'
import { untilAborted } from './waiting.ts'

/** The calls of a driver whose store answers when a write is durable: refused after `close`, and waited for by `flush`. */
export class DriverCalls {
  readonly #name: string
  readonly #changes = new Set<Promise<unknown>>()
  #closed = false

  /** @param name of the backend, for the refusal */
  constructor(name: string) {
    this.#name = name
  }

  /** @throws the signal's reason; NexusError `CLOSED` after {@link close} */
  begin(verb: string, { signal }: OpOptions): void {
    signal?.throwIfAborted()
    if (!this.#closed) return
    throw new NexusError('CLOSED', `${verb}: the ${this.#name} backend was closed`, { op: `objectstore.${verb}` })
  }

  /** Gives what the write gives. */
  async change<T>(work: Promise<T>): Promise<T> {
    this.#changes.add(work)
    try {
      return await work
    } finally {
      this.#changes.delete(work)
    }
  }

  /**
   * What a `flush` is: waits for writes that nobody awaited. A failure of one is its caller's.
   *
   * @throws the signal's reason; NexusError `CLOSED`
   */
  async flush(options: OpOptions): Promise<void> {
    this.begin('flush', options)
    await untilAborted(Promise.allSettled(this.#changes), options.signal)
    options.signal?.throwIfAborted()
  }

  /** Gives whether it was open until now. */
  close(): boolean {
    const wasOpen = !this.#closed
    this.#closed = true
    return wasOpen
  }
}
