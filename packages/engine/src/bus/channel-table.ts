import { NexusError } from '@nexus/errors'
import { VETOABLE_PREFIX } from './event.ts'
import { schemaVersionOf } from './events.ts'
import type { AfterDispatchHook } from './recorder.ts'
import { withSubscription, type Subscription } from './subscription.ts'

/** What one event type needs at dispatch, worked out once. */
export interface Channel {
  readonly type: string
  readonly vetoable: boolean
  /** What `_schema_version` is filled in with; 0 for types that aren't the engine's own. */
  readonly schemaVersion: number
  typed: readonly Subscription[]
  /** Typed handlers in their order, then the wildcards. */
  handlers: readonly Subscription[]
  hook: AfterDispatchHook | undefined
}

/** Types without handlers are remembered up to this number, so that made-up type names can't fill the memory. */
const MAX_IDLE_CHANNELS = 1024

/** The subscriptions of one bus. Handler lists are replaced, never changed: a dispatch under way keeps the one it has. */
export class ChannelTable {
  readonly #channels = new Map<string, Channel>()
  #wildcards: readonly Subscription[] = []

  /** @throws NexusError `INVALID_ARGUMENT` when the type isn't a usable name */
  get(type: string): Channel {
    return this.#channels.get(type) ?? this.#create(type)
  }

  /** Adds a handler; the returned function removes it and may be called again. */
  add(type: string, subscription: Subscription): () => void {
    const channel = this.get(type)
    this.#setTyped(channel, withSubscription(channel.typed, subscription))
    return () => {
      if (!subscription.active) return
      subscription.active = false
      const current = this.#channels.get(type)
      if (current === undefined) return
      this.#setTyped(
        current,
        current.typed.filter((other) => other !== subscription),
      )
    }
  }

  /** Adds a handler of every type; the returned function removes it and may be called again. */
  addWildcard(subscription: Subscription): () => void {
    this.#setWildcards([...this.#wildcards, subscription])
    return () => {
      if (!subscription.active) return
      subscription.active = false
      this.#setWildcards(this.#wildcards.filter((other) => other !== subscription))
    }
  }

  /** Every channel that has typed handlers. */
  *subscribed(): Generator<Channel> {
    for (const channel of this.#channels.values()) if (channel.typed.length > 0) yield channel
  }

  clear(): void {
    for (const channel of this.#channels.values()) for (const each of channel.typed) each.active = false
    for (const each of this.#wildcards) each.active = false
    this.#channels.clear()
    this.#wildcards = []
  }

  #setTyped(channel: Channel, typed: readonly Subscription[]): void {
    channel.typed = typed
    channel.handlers = [...typed, ...this.#wildcards]
  }

  #setWildcards(wildcards: readonly Subscription[]): void {
    this.#wildcards = wildcards
    for (const channel of this.#channels.values()) this.#setTyped(channel, channel.typed)
  }

  #create(type: string): Channel {
    if (typeof type !== 'string' || type === '' || type === '*') {
      throw new NexusError(
        'INVALID_ARGUMENT',
        `${JSON.stringify(type)} is no event type; types are non-empty names such as io.input, and subscribeAll takes every type`,
        { op: 'bus.channel' },
      )
    }
    if (this.#channels.size >= MAX_IDLE_CHANNELS) this.#forgetIdle()
    const channel: Channel = {
      type,
      vetoable: type.startsWith(VETOABLE_PREFIX),
      schemaVersion: schemaVersionOf(type),
      typed: [],
      handlers: this.#wildcards,
      hook: undefined,
    }
    this.#channels.set(type, channel)
    return channel
  }

  #forgetIdle(): void {
    for (const [type, channel] of this.#channels) {
      if (channel.typed.length === 0 && channel.hook === undefined) this.#channels.delete(type)
    }
  }
}
