import { NexusError } from '@nexus/errors'
import type { Clock } from '@nexus/host'

export interface TurnTrackerOptions {
  clock: Clock
  /** An input counts as the beginning of a turn for so long when no turn comes of it. */
  settleMs: number
  /** A turn in which nothing happens for so long has ended without saying so. */
  stallMs: number
  /** Position of the journal: moves with whatever happens. */
  position: () => number
}

/**
 * Knows whether a turn is under way, so that a retry never stores half of one.
 *
 * A turn that never says its end (its agent threw) must not keep retries away for the rest of the run: it counts as ended
 * when nothing has been journaled for {@link TurnTrackerOptions.stallMs}.
 */
export class TurnTracker {
  readonly #options: TurnTrackerOptions
  readonly #open = new Set<string>()
  #inputAtMs: number | undefined
  #seen: { position: number; atMs: number } | undefined
  #untilTurn = new AbortController()

  constructor(options: TurnTrackerOptions) {
    this.#options = options
  }

  get betweenTurns(): boolean {
    const { clock, settleMs } = this.#options
    if (this.#open.size > 0 && this.#isStalled()) this.#open.clear()
    if (this.#open.size > 0) return false
    return this.#inputAtMs === undefined || clock.now() - this.#inputAtMs >= settleMs
  }

  /** Aborts when a turn may begin, and is aborted while one is under way: for work that may only run between turns. */
  untilTurn(): AbortSignal {
    if (this.#untilTurn.signal.aborted && this.betweenTurns) this.#untilTurn = new AbortController()
    return this.#untilTurn.signal
  }

  /**
   * To be called when every handler of the turn's end has run: what they write belongs to the turn. An end that names no turn
   * ends all that are open.
   */
  turnEnded(turnId: string | undefined): void {
    if (turnId === undefined) this.#open.clear()
    else this.#open.delete(turnId)
    this.#inputAtMs = undefined
  }

  /** To be called before any handler of the input has written anything. */
  inputCame(): void {
    this.#inputAtMs = this.#options.clock.now()
    this.#begin()
  }

  /** To be called before any handler of the turn's start has written anything. */
  turnBegan(turnId: string | undefined): void {
    this.#open.add(turnId ?? '')
    this.#seen = undefined
    this.#begin()
  }

  #begin(): void {
    this.#untilTurn.abort(new NexusError('ABORTED', 'a turn began while a retry was storing the last one'))
  }

  #isStalled(): boolean {
    const { clock, position, stallMs } = this.#options
    const at = position()
    if (this.#seen?.position !== at) this.#seen = { position: at, atMs: clock.now() }
    return clock.now() - this.#seen.atMs >= stallMs
  }
}
