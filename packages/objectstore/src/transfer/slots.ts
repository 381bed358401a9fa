import type { OpOptions } from '../driver.ts'
import { Gate } from './gate.ts'

/** Who waits: a call, or a piece of one. */
export interface Waiter {
  signal?: AbortSignal | undefined
  onWait?: OpOptions['onWait']
}

/** Transfers above it are large. */
const LARGE_BYTES = 1024 * 1024
/** What a system keeps at most of what was handed to a socket and has not left yet. */
const SOCKET_BYTES = 4 * 1024 * 1024
/** The slowest link that is planned for, for everything together. */
const LINK_BYTES_PER_MS = 256
/** More than this is not granted: a connection that died must be noticed. */
const LONGEST_DRAIN_MS = 64_000

/**
 * Transfers at a time. Large ones hold at most three quarters of the slots, so that small ones don't wait behind them.
 */
export class Slots {
  readonly #all: Gate
  readonly #large: Gate
  #handedBytes = 0

  /** @param count at least 1 */
  constructor(count: number) {
    this.#all = new Gate(count)
    this.#large = new Gate(Math.max(1, Math.floor((count * 3) / 4)))
  }

  /**
   * Waits for a slot; see {@link Gate.enter}.
   *
   * @param sizeBytes of the transfer; 0 where that is not known
   * @returns gives the slot back
   */
  async enter(sizeBytes: number, waiter: Waiter = {}): Promise<() => void> {
    const options = given(waiter)
    const leaveLarge = sizeBytes > LARGE_BYTES ? await this.#large.enter(1, options) : undefined
    try {
      const leave = await this.#all.enter(1, options)
      return () => {
        leave()
        leaveLarge?.()
      }
    } catch (error) {
      leaveLarge?.()
      throw error
    }
  }

  /** As {@link enter}, for several slots at once that only make sense together. */
  enterSeveral(count: number, waiter: Waiter = {}): Promise<() => void> {
    return this.#all.enter(count, given(waiter))
  }

  /** An upload of so many bytes begins; call what it returns when it was answered. */
  hand(sizeBytes: number): () => void {
    const bytes = Math.min(sizeBytes, SOCKET_BYTES)
    this.#handedBytes += bytes
    return () => void (this.#handedBytes -= bytes)
  }

  /**
   * How much longer than usual an upload may be silent, in ms: bytes that were handed over are still on their way, those of
   * all uploads over one link, and only their answer tells.
   */
  get drainMs(): number {
    return Math.min(this.#handedBytes / LINK_BYTES_PER_MS, LONGEST_DRAIN_MS)
  }
}

function given({ signal, onWait }: Waiter): Pick<OpOptions, 'signal' | 'onWait'> {
  return { ...(signal === undefined ? {} : { signal }), ...(onWait === undefined ? {} : { onWait }) }
}
