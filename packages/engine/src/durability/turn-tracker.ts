import type { Clock } from '../clock.ts'
import { DURABILITY_SOURCE, type DurabilityBus } from './event-outbox.ts'

/** Before every other handler: a turn counts as begun before anything of it is written. */
const FIRST = -1_000_000

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
  #unsubscribe: (() => void)[] = []

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

  attach(bus: DurabilityBus): void {
    const options = { priority: FIRST, source: DURABILITY_SOURCE }
    this.#unsubscribe = [
      bus.subscribe('io.input', () => this.#inputCame(), options),
      bus.subscribe('agent.turn.start', ({ payload }) => this.#turnBegan(payload.turn_id), options),
    ]
  }

  /** To be called when every handler of the turn's end has run: what they write belongs to the turn. */
  turnEnded(turnId: string | undefined): void {
    this.#open.delete(turnId ?? '')
    this.#inputAtMs = undefined
  }

  detach(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    this.#unsubscribe = []
  }

  #inputCame(): void {
    this.#inputAtMs = this.#clock.now()
    this.#onBegin()
  }

  #turnBegan(turnId: string | undefined): void {
    this.#open.add(turnId ?? '')
    this.#onBegin()
  }
}
