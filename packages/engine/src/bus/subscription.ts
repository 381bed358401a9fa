import { NexusError } from '@nexus/errors'
import type { EventHandler, NexusEvent } from './event.ts'

/** How a handler is subscribed. */
export interface SubscribeOptions<P = unknown> {
  /** Handlers run in ascending priority, equal ones in subscription order. Finite; default 0. */
  priority?: number
  /** Called before the handler; anything falsy skips it. One that throws counts as a failing handler. */
  filter?: (event: NexusEvent<P>) => boolean
  /**
   * The handler only looks: it does nothing outside the session. A plugin's handlers of side effects (`llm.request`,
   * `tool.invoke`, ...) are left out of a replay unless they say so. Default false.
   */
  observes?: boolean
  /**
   * What the handler does stays inside the session, such as writing its files. A branch of a session, whose files must be as
   * they were, has it run again for the turns before the branch. Default false.
   */
  confined?: boolean
  /** Who subscribes: named in logs, in `core.error` and in the warning about shared priorities. */
  source?: string
}

/** One handler on one type, or on every type. */
export interface Subscription {
  readonly handler: EventHandler
  readonly priority: number
  readonly filter: ((event: NexusEvent) => boolean) | undefined
  readonly source: string
  /** False once unsubscribed: also a dispatch that is under way skips it then. */
  active: boolean
}

/** Where a new subscription goes so that priorities ascend and equal ones keep their order of arrival. */
export function withSubscription(existing: readonly Subscription[], added: Subscription): readonly Subscription[] {
  let at = existing.length
  while (at > 0 && (existing[at - 1] as Subscription).priority > added.priority) at--
  return [...existing.slice(0, at), added, ...existing.slice(at)]
}

/** @throws NexusError `INVALID_ARGUMENT` without a function or with a priority that can't be ordered */
export function toSubscription(type: string, handler: EventHandler, options: SubscribeOptions): Subscription {
  const priority = options.priority ?? 0
  if (typeof handler !== 'function' || !Number.isFinite(priority)) {
    throw new NexusError('INVALID_ARGUMENT', `a subscription to ${type} needs a function and a finite priority`, {
      op: 'bus.subscribe',
      key: type,
    })
  }
  return { handler, priority, filter: options.filter, source: options.source ?? '', active: true }
}
