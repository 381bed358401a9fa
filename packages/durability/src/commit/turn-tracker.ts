import type { Clock } from '@nexus/host'

/**
 * Knows whether a turn is under way, so that a retry never stores half of one.
 *
 * An input counts as the beginning of a turn until one has ended, or for `settleMs` when no turn comes of it.
 */
export class TurnTracker {
  readonly #clock: Clock
  readonly #settleMs: number
  readonly #onBegin: () => void
  readonly #open = new Set<string>()
  #inputAtMs: number | undefined

  /** @param onBegin called when a turn may have begun */
  constructor({ clock, settleMs, onBegin }: { clock: Clock; settleMs: number; onBegin: () => void }) {
    this.#clock = clock
    this.#settleMs = settleMs
    this.#onBegin = onBegin
  }

  get betweenTurns(): boolean {
    if (this.#open.size > 0) return false
    return this.#inputAtMs === undefined || this.#clock.now() - this.#inputAtMs >= this.#settleMs
  }

  /** To be called when every handler of the turn's end has run: what they write belongs to the turn. */
  turnEnded(turnId: string | undefined): void {
    this.#open.delete(turnId ?? '')
    this.#inputAtMs = undefined
  }

  /** To be called before any handler of the input has written anything. */
  inputCame(): void {
    this.#inputAtMs = this.#clock.now()
    this.#onBegin()
  }

  /** To be called before any handler of the turn's start has written anything. */
  turnBegan(turnId: string | undefined): void {
    this.#open.add(turnId ?? '')
    this.#onBegin()
  }
}
