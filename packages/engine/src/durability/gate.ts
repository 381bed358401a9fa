import { DURABILITY_SOURCE, type DurabilityBus } from './event-outbox.ts'

/** Behind every other subscriber of the input, so that cancelling and commands still work while the gate is closed. */
export const GATE_PRIORITY = 200

/**
 * Refuses input under `failure_policy: strict` while the last completed turn isn't stored.
 *
 * Closed means that every `before:io.input` is vetoed with the reason of the last failure; a snapshot that succeeds
 * opens it again.
 *
 * @see spec 60, Failure policy
 */
export class TurnGate {
  #reason: string | undefined
  #unsubscribe: (() => void) | undefined
  #refusedCount = 0

  /** Whether input is refused now. */
  get closed(): boolean {
    return this.#reason !== undefined
  }

  /** Why input is refused, or undefined while the gate is open. */
  get reason(): string | undefined {
    return this.#reason
  }

  /** How many inputs were refused in this run. */
  get refusedCount(): number {
    return this.#refusedCount
  }

  /** Subscribes. The gate may have been closed before. */
  attach(bus: DurabilityBus): void {
    this.#unsubscribe = bus.subscribe('before:io.input', () => this.#judge(), {
      priority: GATE_PRIORITY,
      source: DURABILITY_SOURCE,
    })
  }

  /** Closes the gate, or gives a closed one a newer reason. */
  close(reason: string): void {
    this.#reason = reason
  }

  open(): void {
    this.#reason = undefined
  }

  detach(): void {
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
  }

  #judge(): { vetoed: true; reason: string } | undefined {
    if (this.#reason === undefined) return undefined
    this.#refusedCount += 1
    return { vetoed: true, reason: this.#reason }
  }
}
