import type { NexusError } from '@nexus/errors'

/**
 * Whether a run may still write, here or remotely. One per run; everything that writes asks it, and what is on its way ends
 * with {@link signal}. Once fallen it never stands again, and the first reason stays.
 *
 * Codes of a reason: `FENCED` another host committed the session, `LOCKED` another process took its lock, `CLOSED` the run
 * ended or was abandoned.
 */
export class Fence {
  readonly #life = new AbortController()

  /** Aborts when the fence falls, with the reason. */
  get signal(): AbortSignal {
    return this.#life.signal
  }

  /** Why nothing may be written any more; undefined while the run owns its session. */
  get reason(): NexusError | undefined {
    return this.#life.signal.reason as NexusError | undefined
  }

  /** Another host or process has the session: the run ended by itself. */
  get isLost(): boolean {
    return this.reason !== undefined && this.reason.code !== 'CLOSED'
  }

  /** @throws the reason, once the fence has fallen */
  check(): void {
    if (this.reason !== undefined) throw this.reason
  }

  /** Ends the right to write: everything that listens to {@link signal} ends before this returns. Later reasons are ignored. */
  fall(reason: NexusError): void {
    this.#life.abort(reason)
  }
}
