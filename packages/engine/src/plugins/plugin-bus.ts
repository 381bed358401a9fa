import type { EmitOptions, EventEmitting, EventHandler, NexusEvent, VetoOutcome } from '../bus/event.ts'
import type { EventSubscribing } from '../bus/event-bus.ts'
import type { AnyEventType, PayloadOf } from '../bus/event-map.ts'
import type { SubscribeOptions } from '../bus/subscription.ts'

/**
 * The bus as one plugin sees it: what it emits, also through an event it handles, names the plugin as its source, and
 * all its subscriptions end together.
 */
export class PluginBus implements EventEmitting, EventSubscribing {
  readonly #bus: EventEmitting & EventSubscribing
  readonly #source: string
  readonly #subscriptions = new Set<() => void>()

  constructor(bus: EventEmitting & EventSubscribing, source: string) {
    this.#bus = bus
    this.#source = source
  }

  emit<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<void> {
    return this.#bus.emit(type, payload, options ?? { source: this.#source })
  }

  emitVetoable<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<VetoOutcome> {
    return this.#bus.emitVetoable(type, payload, options ?? { source: this.#source })
  }

  subscribe<T extends AnyEventType>(
    type: T,
    handler: EventHandler<PayloadOf<T>>,
    options: SubscribeOptions<PayloadOf<T>> = {},
  ): () => void {
    return this.#keep(this.#bus.subscribe(type, this.#sourced(handler), { source: this.#source, ...options }))
  }

  subscribeAll(handler: EventHandler, options: Pick<SubscribeOptions, 'source' | 'filter'> = {}): () => void {
    return this.#keep(this.#bus.subscribeAll(this.#sourced(handler), { source: this.#source, ...options }))
  }

  /** Ends every subscription made through here. */
  unsubscribeAll(): void {
    for (const unsubscribe of this.#subscriptions) unsubscribe()
    this.#subscriptions.clear()
  }

  #sourced<P>(handler: EventHandler<P>): EventHandler<P> {
    return (event) => handler(new SourcedEvent(event, this.#source))
  }

  #keep(unsubscribe: () => void): () => void {
    const once = (): void => {
      this.#subscriptions.delete(once)
      unsubscribe()
    }
    this.#subscriptions.add(once)
    return once
  }
}

/** An event whose children name the plugin that handles it. */
class SourcedEvent<P> implements NexusEvent<P> {
  readonly #event: NexusEvent<P>
  readonly #source: string

  constructor(event: NexusEvent<P>, source: string) {
    this.#event = event
    this.#source = source
  }

  get type(): string {
    return this.#event.type
  }

  get id(): string {
    return this.#event.id
  }

  get timestamp(): string {
    return this.#event.timestamp
  }

  get source(): string {
    return this.#event.source
  }

  get payload(): P {
    return this.#event.payload
  }

  get causation(): NexusEvent<P>['causation'] {
    return this.#event.causation
  }

  emit<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<void> {
    return this.#event.emit(type, payload, options ?? { source: this.#source })
  }

  emitVetoable<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<VetoOutcome> {
    return this.#event.emitVetoable(type, payload, options ?? { source: this.#source })
  }

  veto(reason?: string): void {
    this.#event.veto(reason)
  }
}
