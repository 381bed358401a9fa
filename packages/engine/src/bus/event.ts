import { NexusError } from '@nexus/errors'
import type { AnyEventType, PayloadOf } from './event-map.ts'

/** Where an event comes from: its place in the journal and the event whose handler emitted it. */
export interface Causation {
  /** Journal position; undefined for a type the journal leaves out and for a `before:*` event still under way. */
  seq: number | undefined
  /** Journal position of the parent; undefined for a root, and under a `before:*` or unjournaled parent. */
  parent_seq: number | undefined
  parent_id: string | undefined
  session_id: string
  /** Empty when no agent id is configured. */
  agent_id: string
  /** 0 for a root, one more than the parent's otherwise. */
  depth: number
}

/** What `emit` accepts besides type and payload. */
export interface EmitOptions {
  /** Who emits; default: the `source` of the bus. */
  source?: string
  /** Told what each failing handler of this event threw, in order. Handlers of events emitted by them don't count. */
  onFailure?: (error: unknown) => void
}

/** The answer to a `before:*` event. */
export interface VetoOutcome {
  vetoed: boolean
  reason?: string
}

/** The emitting half of a bus. */
export interface EventEmitting {
  /**
   * Dispatches an event; resolves when every handler has finished.
   *
   * Handlers that fail don't reject it. It rejects with `CLOSED` on a closed bus, with `INVALID_ARGUMENT` on a malformed
   * type and in an endless circle of synchronous handlers, and with the journal's error where the event's durability was promised and not reached (`agent.turn.end`, or
   * any event under `journal.fsync: every-event`). Not awaiting it is safe: such a rejection never counts as unhandled.
   */
  emit<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<void>
  /** Dispatches a `before:*` event and tells whether a handler vetoed it. Rejects like `emit`. */
  emitVetoable<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<VetoOutcome>
}

/** What a handler receives. */
export interface NexusEvent<P = unknown> extends EventEmitting {
  readonly type: string
  /** 26 characters, unique across processes, ascending within one bus. */
  readonly id: string
  /** Dispatch time, RFC 3339 in UTC with milliseconds. */
  readonly timestamp: string
  readonly source: string
  readonly payload: P
  readonly causation: Readonly<Causation>
  /**
   * Vetoes a `before:*` event; the first veto wins and no later handler runs.
   *
   * @throws NexusError `INVALID_ARGUMENT` for any other event, `PRECONDITION` once the outcome is decided
   */
  veto(reason?: string): void
}

/**
 * Handles one event, synchronously or not. In answer to a `before:*` event it may return a {@link VetoOutcome}; any other
 * return value means nothing.
 */
export type EventHandler<P = unknown> = (event: NexusEvent<P>) => unknown

/** Who dispatches what a handler emits through its event. */
export interface EventHost {
  emitUnder(parent: BusEvent, type: string, payload: unknown, options?: EmitOptions): Promise<void>
  emitVetoableUnder(parent: BusEvent, type: string, payload: unknown, options?: EmitOptions): Promise<VetoOutcome>
}

/** The prefix of vetoable events. */
export const VETOABLE_PREFIX = 'before:'

/** The bus's own event object; own enumerable properties are exactly the public ones, so it serialises as it reads. */
export class BusEvent implements NexusEvent {
  readonly type: string
  readonly id: string
  readonly timestamp: string
  readonly source: string
  readonly payload: unknown
  readonly causation: Causation
  readonly #host: EventHost
  readonly #withinError: boolean
  readonly #onFailure: EmitOptions['onFailure']
  #outcome: VetoOutcome | undefined = undefined
  #decided = false

  constructor(
    host: EventHost,
    type: string,
    id: string,
    timestamp: string,
    source: string,
    payload: unknown,
    causation: Causation,
    parent: BusEvent | undefined,
    onFailure?: EmitOptions['onFailure'],
  ) {
    this.type = type
    this.id = id
    this.timestamp = timestamp
    this.source = source
    this.payload = payload
    this.causation = causation
    this.#host = host
    this.#onFailure = onFailure
    this.#withinError = (parent !== undefined && parent.#withinError) || type === 'core.error'
  }

  emit<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<void> {
    return this.#host.emitUnder(this, type, payload, options)
  }

  emitVetoable<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<VetoOutcome> {
    return this.#host.emitVetoableUnder(this, type, payload, options)
  }

  veto(reason?: string): void {
    if (!this.vetoable) {
      throw new NexusError(
        'INVALID_ARGUMENT',
        `${this.type} can't be vetoed; subscribe to before:${this.type} if it is emitted, and veto that`,
        { op: 'bus.veto', key: this.type },
      )
    }
    if (this.#decided) {
      throw new NexusError('PRECONDITION', `the outcome of ${this.type} was decided before this veto`, {
        op: 'bus.veto',
        key: this.type,
      })
    }
    this.#outcome ??= reason === undefined ? { vetoed: true } : { vetoed: true, reason }
  }

  get vetoable(): boolean {
    return this.type.startsWith(VETOABLE_PREFIX)
  }

  /** The veto, if there was one. */
  get outcome(): VetoOutcome | undefined {
    return this.#outcome
  }

  /** Whether this is a `core.error` or was caused by one: a failure here must not raise another. */
  get withinError(): boolean {
    return this.#withinError
  }

  /** One of its handlers failed. */
  failed(error: unknown): void {
    this.#onFailure?.(error)
  }

  /** Takes no veto from here on. */
  decide(): void {
    this.#decided = true
  }
}

/** A veto counts on `before:*` events only; what other handlers return means nothing. */
export function noteVeto(event: BusEvent, result: unknown): void {
  if (typeof result !== 'object' || result === null || !('vetoed' in result) || result.vetoed !== true) return
  if (!event.vetoable) return
  event.veto('reason' in result && typeof result.reason === 'string' ? result.reason : undefined)
}
