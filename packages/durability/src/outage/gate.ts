/**
 * Refuses input under `failure_policy: strict` while the last completed turn isn't stored.
 *
 * Closed means that every input is refused with the reason of the last failure; a snapshot that succeeds opens it again.
 *
 * @see docs/concepts/durability.md
 */
export class TurnGate {
  #reason: string | undefined
  #refusedCount = 0
  #isGone = false

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

  /** Why the input that comes now is refused, or undefined when it may pass. Counts the refusal. */
  judge(): string | undefined {
    if (this.#isGone) return undefined
    if (this.#reason !== undefined) this.#refusedCount += 1
    return this.#reason
  }

  /** Closes the gate, or gives a closed one a newer reason. */
  close(reason: string): void {
    this.#reason = reason
  }

  open(): void {
    this.#reason = undefined
  }

  /** The run ends: nothing is refused any more. */
  remove(): void {
    this.#isGone = true
  }
}
