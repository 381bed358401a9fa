import { AsyncLocalStorage } from 'node:async_hooks'
import type { Channel } from './channel-table.ts'
import { noteVeto, type BusEvent, type VetoOutcome } from './event.ts'
import type { PendingEvents } from './pending-events.ts'
import type { AfterDispatchHook, EventRecorder } from './recorder.ts'
import type { Subscription } from './subscription.ts'

/** What the dispatcher works with. */
export interface DispatcherOptions {
  readonly pending: PendingEvents
  readonly asyncContext: boolean
  /** A failing handler ends the dispatch and is thrown. */
  readonly failFast: boolean
  /** Told of every failure that is not thrown. `source` is empty where no handler is to blame. */
  readonly report: (event: BusEvent, source: string, error: unknown, message: string) => void
}

/** Runs the handlers of one event after the other, synchronously for as long as they are synchronous. */
export class Dispatcher {
  /** What records events, if anything does. */
  recorder: EventRecorder | undefined = undefined
  readonly #pending: PendingEvents
  readonly #context: AsyncLocalStorage<BusEvent> | undefined
  readonly #failFast: boolean
  readonly #report: DispatcherOptions['report']
  /** The event whose handler is running right now, in its synchronous part. */
  #current: BusEvent | undefined = undefined
  #nesting = 0

  constructor(options: DispatcherOptions) {
    this.#pending = options.pending
    this.#context = options.asyncContext ? new AsyncLocalStorage() : undefined
    this.#failFast = options.failFast
    this.#report = options.report
  }

  /** The parent of an event that is emitted right now without naming one. */
  get parent(): BusEvent | undefined {
    return this.#context === undefined ? this.#current : this.#context.getStore()
  }

  /** Handlers on the stack right now, each inside the one before. */
  get nesting(): number {
    return this.#nesting
  }

  /** Records the event and runs its handlers; undefined when all is done already. */
  dispatch(event: BusEvent, channel: Channel): Promise<void> | undefined {
    if (!channel.vetoable) this.#record(event)
    const handlers = channel.handlers
    for (let index = 0; index < handlers.length; index++) {
      const pending = this.#invoke(handlers[index] as Subscription, event)
      if (pending !== undefined)
        return this.#pending.track(event, this.#continue(event, channel, handlers, index, pending))
      if (event.outcome !== undefined) break
    }
    const rest = this.#conclude(event, channel)
    return rest === undefined ? undefined : this.#pending.track(event, rest)
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
    this.#nesting++
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
      this.#nesting--
    }
    return undefined
  }

  /** What follows the last handler; undefined when there is nothing to wait for. */
  #conclude(event: BusEvent, channel: Channel): Promise<void> | undefined {
    if (channel.vetoable) {
      event.decide()
      this.#record(event, event.outcome ?? { vetoed: false })
    }
    const settled = this.recorder?.settled?.(event)
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
      this.#report(event, '', error, 'the work after an event failed')
    }
    if (failure !== undefined) throw failure.error
  }

  #record(event: BusEvent, outcome?: VetoOutcome): void {
    if (this.recorder !== undefined) event.causation.seq = this.recorder.record(event, outcome)
  }

  #failed(subscription: Subscription, event: BusEvent, error: unknown): void {
    if (this.#failFast) throw error
    event.failed(error)
    this.#report(event, subscription.source, error, 'an event handler failed')
  }
}

function isThenable(value: object): value is PromiseLike<unknown> {
  return 'then' in value && typeof value.then === 'function'
}
