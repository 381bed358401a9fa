import { inspect } from 'node:util'
import { isNexusError, NexusError } from '@nexus/errors'
import type { Clock, Logger } from '@nexus/host'
import { ChannelTable, type Channel } from './channel-table.ts'
import { Dispatcher } from './dispatcher.ts'
import { withSchemaVersion } from './events.ts'
import {
  BusEvent,
  type EmitOptions,
  type EventEmitting,
  type EventHandler,
  type EventHost,
  type VetoOutcome,
} from './event.ts'
import { createEventIds } from './event-id.ts'
import type { AnyEventType, PayloadOf } from './event-map.ts'
import { createTimestamps } from './event-timestamps.ts'
import { PendingEvents } from './pending-events.ts'
import type { AfterDispatchHook, EventRecorder } from './recorder.ts'
import { toSubscription, type SubscribeOptions } from './subscription.ts'

/** How a bus is made. */
export interface EventBusOptions {
  sessionId: string
  /** Default empty. */
  agentId?: string
  /** `source` of events that name none. Default `core`. */
  source?: string
  clock: Clock
  /** Numbers in [0, 1), for event ids; default: the system's cryptographic source. */
  random?: () => number
  logger: Logger
  /**
   * Also gives a plain `bus.emit` its parent after an `await`, through AsyncLocalStorage. Off by default: on Node 20 it
   * slows every asynchronous call of the process down to about half.
   */
  asyncContext?: boolean
  /** For tests: a failing handler rejects the emit at once, and no later handler runs. */
  failFast?: boolean
}

/** The subscribing half of a bus. */
export interface EventSubscribing {
  /** Adds a handler of one type. The returned function removes it, also from a dispatch that is under way. */
  subscribe<T extends AnyEventType>(
    type: T,
    handler: EventHandler<PayloadOf<T>>,
    options?: SubscribeOptions<PayloadOf<T>>,
  ): () => void
  /** Adds a handler of every type; it runs after the typed ones, in subscription order. */
  subscribeAll(handler: EventHandler, options?: Pick<SubscribeOptions, 'source' | 'filter'>): () => void
}

/** The bus of a run as its embedder sees it: who records, and when it closes, is the engine's to say. */
export type SessionBus = EventEmitting & EventSubscribing & Pick<EventBus, 'drain' | 'outstanding'>

const DONE: Promise<void> = Promise.resolve()
const NOT_VETOED: Promise<VetoOutcome> = Promise.resolve(Object.freeze({ vetoed: false }))
/** Far more than handlers that mean it, far less than the stack holds. */
const MAX_NESTING = 200
const ignore = (): void => undefined

/**
 * Dispatches the events of one session.
 *
 * Handlers of one event run one after the other: typed ones in ascending priority, equal priorities in subscription
 * order, then the wildcards; each starts when the one before it has settled. Different events don't wait for each other.
 * While every handler is synchronous, `emit` runs to its end before it returns, and returns one shared promise.
 *
 * An event emitted through `event.emit` is the child of that event, also after an `await`; so is a plain `bus.emit` in the
 * synchronous part of a handler. After an `await` a plain `bus.emit` starts a new root unless `asyncContext` is on.
 *
 * @see docs/reference/events.md
 */
export class EventBus implements EventEmitting, EventSubscribing {
  readonly sessionId: string
  readonly agentId: string
  readonly source: string
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #failFast: boolean
  readonly #channels: ChannelTable = new ChannelTable()
  readonly #pending: PendingEvents = new PendingEvents()
  readonly #nextId: () => string
  readonly #timestamp: () => string
  readonly #host: EventHost
  readonly #dispatcher: Dispatcher
  #closed = false

  constructor(options: EventBusOptions) {
    this.sessionId = options.sessionId
    this.agentId = options.agentId ?? ''
    this.source = options.source ?? 'core'
    this.#clock = options.clock
    this.#logger = options.logger
    this.#failFast = options.failFast ?? false
    this.#dispatcher = new Dispatcher({
      pending: this.#pending,
      asyncContext: options.asyncContext ?? false,
      failFast: this.#failFast,
      report: (event, source, error, message) => this.#report(event, source, error, message),
    })
    this.#nextId = createEventIds(options.random)
    this.#timestamp = createTimestamps(options.clock)
    this.#host = {
      emitUnder: (parent, type, payload, emitOptions) => this.#emit(parent, type, payload, emitOptions),
      emitVetoableUnder: (parent, type, payload, emitOptions) => this.#emitVetoable(parent, type, payload, emitOptions),
    }
  }

  emit<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<void> {
    return this.#emit(this.#dispatcher.parent, type, payload, options)
  }

  emitVetoable<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<VetoOutcome> {
    return this.#emitVetoable(this.#dispatcher.parent, type, payload, options)
  }

  subscribe<T extends AnyEventType>(
    type: T,
    handler: EventHandler<PayloadOf<T>>,
    options: SubscribeOptions<PayloadOf<T>> = {},
  ): () => void {
    return this.#channels.add(type, toSubscription(type, handler as EventHandler, options as SubscribeOptions))
  }

  subscribeAll(handler: EventHandler, options: Pick<SubscribeOptions, 'source' | 'filter'> = {}): () => void {
    return this.#channels.addWildcard(toSubscription('every event', handler, options))
  }

  /** Sets who records events; undefined records nothing, and leaves `seq` empty. */
  setRecorder(recorder: EventRecorder | undefined): void {
    this.#dispatcher.recorder = recorder
  }

  /** Sets what runs after handlers and recorder of these types, the emit waiting for it. One hook per type. */
  setAfterDispatch(types: readonly string[], hook: AfterDispatchHook | undefined): void {
    for (const type of types) this.#channels.get(type).hook = hook
  }

  /** A sentence for every `before:*` priority that several handlers share: their order is then that of subscription. */
  sharedVetoPriorities(): string[] {
    const warnings: string[] = []
    for (const { type, vetoable, typed } of this.#channels.subscribed()) {
      if (!vetoable) continue
      for (const priority of new Set(typed.map((each) => each.priority))) {
        const sharing = typed.filter((each) => each.priority === priority)
        if (sharing.length < 2) continue
        const names = sharing.map((each) => each.source || 'unnamed').join(', ')
        warnings.push(
          `${type}: ${sharing.length} handlers share priority ${priority} (${names}); they run as subscribed`,
        )
      }
    }
    return warnings
  }

  /** Events whose handlers, recording or hook haven't finished. */
  get outstanding(): number {
    return this.#pending.size
  }

  /**
   * Waits until nothing is outstanding, for `timeoutMs` at most.
   *
   * @returns false when it gave up; what was outstanding is logged by type
   */
  async drain(options: { timeoutMs: number }): Promise<boolean> {
    const drained = await this.#pending.idle(this.#clock, options.timeoutMs)
    if (!drained) {
      this.#logger.warn(
        { outstanding: this.#pending.size, types: this.#pending.types(10), timeout_ms: options.timeoutMs },
        'events still have unfinished handlers; going on without them',
      )
    }
    return drained
  }

  /** Takes no further event, drops every subscription and the recorder. Handlers already running are left alone. */
  close(): void {
    this.#closed = true
    this.#dispatcher.recorder = undefined
    this.#channels.clear()
  }

  #emit(parent: BusEvent | undefined, type: string, payload: unknown, options?: EmitOptions): Promise<void> {
    try {
      this.#assertTakes(type)
      const channel = this.#channels.get(type)
      const rest = this.#dispatcher.dispatch(this.#createEvent(channel, parent, payload, options), channel)
      return rest === undefined ? DONE : this.#handled(rest)
    } catch (error) {
      return this.#refusal(type, error)
    }
  }

  #emitVetoable(
    parent: BusEvent | undefined,
    type: string,
    payload: unknown,
    options?: EmitOptions,
  ): Promise<VetoOutcome> {
    try {
      this.#assertTakes(type)
      const channel = this.#channels.get(type)
      if (!channel.vetoable) {
        throw new NexusError('INVALID_ARGUMENT', `only before:* events can be vetoed; emit before:${type} first`, {
          op: 'bus.emitVetoable',
          key: type,
        })
      }
      const event = this.#createEvent(channel, parent, payload, options)
      const rest = this.#dispatcher.dispatch(event, channel)
      if (rest !== undefined) return this.#handled(rest.then(() => event.outcome ?? { vetoed: false }))
      return event.outcome === undefined ? NOT_VETOED : Promise.resolve(event.outcome)
    } catch (error) {
      return this.#refusal(type, error)
    }
  }

  #createEvent(channel: Channel, parent: BusEvent | undefined, payload: unknown, options?: EmitOptions): BusEvent {
    const parentCausation = parent?.causation
    return new BusEvent(
      this.#host,
      channel.type,
      this.#nextId(),
      this.#timestamp(),
      options?.source ?? this.source,
      channel.schemaVersion === 0 ? payload : withSchemaVersion(payload, channel.schemaVersion),
      {
        seq: undefined,
        parent_seq: parent === undefined || parent.vetoable ? undefined : parentCausation?.seq,
        parent_id: parent?.id,
        session_id: this.sessionId,
        agent_id: this.agentId,
        depth: parentCausation === undefined ? 0 : parentCausation.depth + 1,
      },
      parent,
      options?.onFailure,
    )
  }

  /** Logs a failure and raises one `core.error` for it, unless it happened while one was handled. */
  #report(event: BusEvent, source: string, error: unknown, message: string): void {
    this.#logger.error({ event: event.type, event_id: event.id, handler: source, err: error }, message)
    if (event.withinError) return
    const payload = {
      _schema_version: 1,
      source: source || event.type,
      error: failureText(error),
      fatal: false,
      retryable: isNexusError(error) && error.retryable,
    }
    void this.#emit(event, 'core.error', payload)
  }

  /** The caller may await it or not: in neither case does a rejection end the process as unhandled. */
  #handled<T>(promise: Promise<T>): Promise<T> {
    if (!this.#failFast) promise.then(undefined, ignore)
    return promise
  }

  #assertTakes(type: string): void {
    if (this.#closed) {
      throw new NexusError('CLOSED', `the bus is closed; ${type} was not dispatched`, { op: 'bus.emit', key: type })
    }
    if (this.#dispatcher.nesting < MAX_NESTING) return
    const message = `${type} was emitted within ${MAX_NESTING} handlers that run inside each other: they emit in a circle`
    throw new NexusError('INVALID_ARGUMENT', message, { op: 'bus.emit', key: type })
  }

  /** Logged, because the caller may not be waiting for the promise. */
  #refusal(type: string, error: unknown): Promise<never> {
    if (!this.#failFast) {
      const log = isNexusError(error, 'CLOSED') ? this.#logger.debug : this.#logger.warn
      log.call(this.#logger, { event: type, err: error }, 'an event was not dispatched')
    }
    return this.#handled(Promise.reject(error))
  }
}

/** What was thrown, as a sentence where it is one. */
function failureText(error: unknown): string {
  if (error instanceof Error) return error.message
  return typeof error === 'string' ? error : inspect(error, { depth: 1 })
}
