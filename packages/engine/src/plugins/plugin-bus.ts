import type { EmitOptions, EventEmitting, EventHandler, NexusEvent, VetoOutcome } from '../bus/event.ts'
import type { EventSubscribing } from '../bus/event-bus.ts'
import type { AnyEventType, PayloadOf } from '../bus/event-map.ts'
import { isAnswer, isSideEffect } from '../bus/events.ts'
import type { SubscribeOptions } from '../bus/subscription.ts'

/** Whether a run is a replay, and whether it rebuilds what the session held. */
export type Replaying = false | 'answers' | 'rebuilding'

/** The bus as one plugin sees it: it can listen and speak, and nothing else. */
export interface PluginBus extends EventEmitting, EventSubscribing {}

/**
 * Makes the bus of one plugin: what it emits, also through an event it handles, names the plugin as its source, and all its
 * subscriptions end together.
 *
 * @param replaying leaves out handlers of side effects that don't only observe; `rebuilding` keeps those whose effect stays
 *   inside the session
 */
export function createPluginBus(
  bus: EventEmitting & EventSubscribing,
  source: string,
  replaying: Replaying = false,
): { readonly bus: PluginBus; readonly unsubscribeAll: () => void } {
  const subscriptions = new Set<() => void>()
  const sourced =
    <P>(handler: EventHandler<P>): EventHandler<P> =>
    (event) =>
      handler(new SourcedEvent(event, source))
  const keep = (unsubscribe: () => void): (() => void) => {
    const once = (): void => {
      subscriptions.delete(once)
      unsubscribe()
    }
    subscriptions.add(once)
    return once
  }
  return {
    bus: Object.freeze<PluginBus>({
      emit: (type, payload, options) => bus.emit(type, payload, { source, ...options }),
      emitVetoable: (type, payload, options) => bus.emitVetoable(type, payload, { source, ...options }),
      subscribe: (type, handler, options) => {
        if (isLeftOut(type, options, replaying)) return () => undefined
        return keep(bus.subscribe(type, sourced(handler), { source, ...options }))
      },
      subscribeAll: (handler, options) => keep(bus.subscribeAll(sourced(handler), { source, ...options })),
    }),
    unsubscribeAll: () => subscriptions.forEach((unsubscribe) => unsubscribe()),
  }
}

function isLeftOut(type: string, options: SubscribeOptions<never> = {}, replaying: Replaying): boolean {
  if (replaying === false || options.observes === true || !isSideEffect(type) || isAnswer(type)) return false
  return replaying !== 'rebuilding' || options.confined !== true
}

/** An event whose children name the plugin that handles it; it serialises like the one it stands for. */
class SourcedEvent<P> implements NexusEvent<P> {
  readonly type: string
  readonly id: string
  readonly timestamp: string
  readonly source: string
  readonly payload: P
  readonly causation: NexusEvent<P>['causation']
  readonly #event: NexusEvent<P>
  readonly #by: string

  constructor(event: NexusEvent<P>, by: string) {
    this.type = event.type
    this.id = event.id
    this.timestamp = event.timestamp
    this.source = event.source
    this.payload = event.payload
    this.causation = event.causation
    this.#event = event
    this.#by = by
  }

  emit<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<void> {
    return this.#event.emit(type, payload, { source: this.#by, ...options })
  }

  emitVetoable<T extends AnyEventType>(type: T, payload: PayloadOf<T>, options?: EmitOptions): Promise<VetoOutcome> {
    return this.#event.emitVetoable(type, payload, { source: this.#by, ...options })
  }

  veto(reason?: string): void {
    this.#event.veto(reason)
  }
}
