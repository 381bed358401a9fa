import { AsyncLocalStorage } from 'node:async_hooks'
import { inspect } from 'node:util'
import { isNexusError, NexusError } from '@nexus/errors'
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import { ChannelTable, type Channel } from './channel-table.ts'
import { withSchemaVersion } from './event-definitions.ts'
import {
  BusEvent,
  noteVeto,
  type EmitOptions,
  type EventEmitting,
  type EventHandler,
  type EventHost,
  type VetoOutcome,
} from './event.ts'
import { createEventIds } from './event-id.ts'
import type { PayloadOf } from './event-map.ts'
import { createTimestamps } from './event-timestamps.ts'
import { PendingEvents } from './pending-events.ts'
import type { AfterDispatchHook, EventRecorder } from './recorder.ts'
import { toSubscription, type SubscribeOptions, type Subscription } from './subscription.ts'

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
  subscribe<T extends string>(
    type: T,
    handler: EventHandler<PayloadOf<T>>,
    options?: SubscribeOptions<PayloadOf<T>>,
  ): () => void
  /** Adds a handler of every type; it runs after the typed ones, in subscription order. */
  subscribeAll(handler: EventHandler, options?: Pick<SubscribeOptions, 'source' | 'filter'>): () => void
}

const DONE: Promise<void> = Promise.resolve()
const NOT_VETOED: Promise<VetoOutcome> = Promise.resolve(Object.freeze({ vetoed: false }))
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
 * @see spec 20
 */
export class EventBus implements EventEmitting, EventSubscribing {
  readonly sessionId: string
  readonly agentId: string
  readonly source: string
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #failFast: boolean
  readonly #context: AsyncLocalStorage<BusEvent> | undefined
  readonly #channels: ChannelTable = new ChannelTable()
  readonly #pending: PendingEvents = new PendingEvents()
  readonly #nextId: () => string
  readonly #timestamp: () => string
  readonly #host: EventHost
  #recorder: EventRecorder | undefined = undefined
  /** The event whose handler is running right now, in its synchronous part. */
  #current: BusEvent | undefined = undefined
  #closed = false

  constructor(options: EventBusOptions) {
    this.sessionId = options.sessionId
    this.agentId = options.agentId ?? ''
    this.source = options.source ?? 'core'
    this.#clock = options.clock
    this.#logger = options.logger
    this.#failFast = options.failFast ?? false
    this.#context = options.asyncContext === true ? new AsyncLocalStorage() : undefined
    this.#nextId = createEventIds(options.random)
    this.#timestamp = createTimestamps(options.clock)
    this.#host = {
      emitUnder: (parent, type, payload, emitOptions) => this.#emit(parent, type, payload, emitOptions),
      emitVetoableUnder: (parent, type, payload, emitOptions) => this.#emitVetoable(parent, type, payload, emitOptions),
    }
  }

  emit<T extends string>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<void> {
    return this.#emit(this.#parent(), type, payload, options)
  }

  emitVetoable<T extends string>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<VetoOutcome> {
    return this.#emitVetoable(this.#parent(), type, payload, options)
  }

  subscribe<T extends string>(
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
    this.#recorder = recorder
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
    this.#recorder = undefined
    this.#channels.clear()
  }

  #parent(): BusEvent | undefined {
    return this.#context === undefined ? this.#current : this.#context.getStore()
  }

  #emit(parent: BusEvent | undefined, type: string, payload: unknown, options?: EmitOptions): Promise<void> {
    try {
      if (this.#closed) throw closedError(type)
      const channel = this.#channels.get(type)
      const rest = this.#dispatch(this.#createEvent(channel, parent, payload, options), channel)
      return rest ?? DONE
    } catch (error) {
      return this.#rejection(error)
    }
  }

  #emitVetoable(
    parent: BusEvent | undefined,
    type: string,
    payload: unknown,
    options?: EmitOptions,
  ): Promise<VetoOutcome> {
    try {
      if (this.#closed) throw closedError(type)
      const channel = this.#channels.get(type)
      if (!channel.vetoable) {
        throw new NexusError('INVALID_ARGUMENT', `only before:* events can be vetoed; emit before:${type} first`, {
          op: 'bus.emitVetoable',
          key: type,
        })
      }
      const event = this.#createEvent(channel, parent, payload, options)
      const rest = this.#dispatch(event, channel)
      if (rest !== undefined) return this.#handled(rest.then(() => event.outcome ?? { vetoed: false }))
      return event.outcome === undefined ? NOT_VETOED : Promise.resolve(event.outcome)
    } catch (error) {
      return this.#rejection(error)
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
    )
  }

  /** Runs the handlers; undefined when all is done already. */
  #dispatch(event: BusEvent, channel: Channel): Promise<void> | undefined {
    if (!channel.vetoable) this.#record(event)
    const handlers = channel.handlers
    for (let index = 0; index < handlers.length; index++) {
      const pending = this.#invoke(handlers[index] as Subscription, event)
      if (pending !== undefined) return this.#tracked(event, this.#continue(event, channel, handlers, index, pending))
      if (event.outcome !== undefined) break
    }
    const rest = this.#conclude(event, channel)
    return rest === undefined ? undefined : this.#tracked(event, rest)
  }

  /** Goes on after the first handler that wasn't done when it returned. */
  async #continue(
    event: BusEvent,
    channel: Channel,
    handlers: readonly Subscription[],
    index: number,
    first: PromiseLike<unknown>,
  ): Promise<void> {
    let pending: PromiseLike<unknown> | undefined = first
    for (let at = index; ; pending = this.#invoke(handlers[at] as Subscription, event)) {
      if (pending !== undefined) {
        try {
          noteVeto(event, await pending)
        } catch (error) {
          this.#failed(handlers[at] as Subscription, event, error)
        }
      }
      if (event.outcome !== undefined || ++at >= handlers.length) break
    }
    await this.#conclude(event, channel)
  }

  /** Runs one handler; a promise when it isn't done yet. */
  #invoke(subscription: Subscription, event: BusEvent): PromiseLike<unknown> | undefined {
    if (!subscription.active) return undefined
    const outer = this.#current
    this.#current = event
    try {
      if (subscription.filter !== undefined && !subscription.filter(event)) return undefined
      const result: unknown =
        this.#context === undefined
          ? subscription.handler(event)
          : this.#context.run(event, subscription.handler, event)
      if (typeof result !== 'object' || result === null) return undefined
      if (isThenable(result)) return result
      noteVeto(event, result)
    } catch (error) {
      this.#failed(subscription, event, error)
    } finally {
      this.#current = outer
    }
    return undefined
  }

  /** What follows the last handler; undefined when there is nothing to wait for. */
  #conclude(event: BusEvent, channel: Channel): Promise<void> | undefined {
    if (channel.vetoable) {
      event.decide()
      this.#record(event, event.outcome ?? { vetoed: false })
    }
    const settled = this.#recorder?.settled?.(event)
    if (settled === undefined && channel.hook === undefined) return undefined
    return this.#settle(event, settled, channel.hook)
  }

  /** The hook runs although the record failed: it finds that out by itself and keeps its own account of what is owed. */
  async #settle(
    event: BusEvent,
    settled: Promise<void> | undefined,
    hook: AfterDispatchHook | undefined,
  ): Promise<void> {
    let failure: { error: unknown } | undefined
    try {
      await settled
    } catch (error) {
      failure = { error }
      this.#report(event, 'journal', error, 'an event was not made durable')
    }
    try {
      await hook?.(event)
    } catch (error) {
      this.#report(event, this.source, error, 'the work after an event failed')
    }
    if (failure !== undefined) throw failure.error
  }

  #record(event: BusEvent, outcome?: VetoOutcome): void {
    if (this.#recorder !== undefined) event.causation.seq = this.#recorder.record(event, outcome)
  }

  #failed(subscription: Subscription, event: BusEvent, error: unknown): void {
    if (this.#failFast) throw error
    this.#report(event, subscription.source, error, 'an event handler failed')
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

  #tracked(event: BusEvent, rest: Promise<void>): Promise<void> {
    return this.#handled(this.#pending.track(event, rest))
  }

  /** The caller may await it or not: in neither case does a rejection end the process as unhandled. */
  #handled<T>(promise: Promise<T>): Promise<T> {
    if (!this.#failFast) promise.then(undefined, ignore)
    return promise
  }

  #rejection(error: unknown): Promise<never> {
    return this.#handled(Promise.reject(error))
  }
}

function closedError(type: string): NexusError {
  return new NexusError('CLOSED', `the bus is closed; ${type} was not dispatched`, { op: 'bus.emit', key: type })
}

/** What was thrown, as a sentence where it is one. */
function failureText(error: unknown): string {
  if (error instanceof Error) return error.message
  return typeof error === 'string' ? error : inspect(error, { depth: 1 })
}

function isThenable(value: object): value is PromiseLike<unknown> {
  return 'then' in value && typeof value.then === 'function'
}
