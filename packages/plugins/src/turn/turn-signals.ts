import { NexusError, type PluginBus } from '@nexus/engine'

declare module '@nexus/engine' {
  interface EventMap {
    /** Asks whatever works for a turn to stop. The turn still ends, with the reason in `error` of its `agent.turn.end`. */
    'agent.turn.cancel': { _schema_version?: 1; turn_id: string; session_id: string; reason?: string }
  }
}

/** Before every other handler: whoever works for a turn finds its signal there. */
export const FIRST = -1_000_000

/**
 * An AbortSignal for each turn under way: it fires when the turn is cancelled (`agent.turn.cancel`), when it ends, so that
 * work that it left behind stops, and when the plugin shuts down.
 */
export class TurnSignals {
  readonly #open = new Map<string, AbortController>()
  #closed: Error | undefined

  constructor(bus: PluginBus) {
    bus.subscribe('agent.turn.start', ({ payload }) => this.#begin(payload.turn_id), { priority: FIRST })
    bus.subscribe('agent.turn.cancel', ({ payload: { turn_id, reason } }) => {
      const why = reason === undefined ? '' : `: ${reason}`
      this.#abort(turn_id, `turn ${turn_id} was cancelled${why}`)
    })
    bus.subscribe('agent.turn.end', ({ payload: { turn_id } }) => {
      this.#abort(turn_id, `turn ${turn_id} has ended`)
      this.#open.delete(turn_id)
    })
  }

  /** The signal of a turn under way; one that never fires for a turn that isn't known. */
  of(turnId: unknown): AbortSignal {
    if (this.#closed !== undefined) return AbortSignal.abort(this.#closed)
    const controller = typeof turnId === 'string' ? this.#open.get(turnId) : undefined
    return (controller ?? new AbortController()).signal
  }

  /** Stops the work for every turn: the plugin is shutting down. */
  close(): void {
    this.#closed = new NexusError('CLOSED', 'the session is closing', { op: 'turn' })
    for (const controller of this.#open.values()) controller.abort(this.#closed)
  }

  #begin(turnId: string): void {
    this.#open.set(turnId, new AbortController())
  }

  #abort(turnId: string, message: string): void {
    this.#open.get(turnId)?.abort(new NexusError('ABORTED', message, { op: 'turn', key: turnId }))
  }
}
