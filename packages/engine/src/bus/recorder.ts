import type { NexusEvent, VetoOutcome } from './event.ts'

/**
 * Where the bus hands over what it dispatches. The sequence number is allotted at hand-over, so what is recorded is
 * contiguous by construction and nothing waits for an unsettled handler.
 *
 * @see docs/concepts/session.md
 */
export interface EventRecorder {
  /**
   * Takes the event: before the first handler runs; a `before:*` event once its outcome is known. Never throws.
   *
   * @param outcome set for `before:*` events only
   * @returns the sequence number, or undefined for a type that isn't recorded
   */
  record(event: NexusEvent, outcome?: VetoOutcome): number | undefined
  /**
   * Called when every handler has finished. A promise holds the event's emit until it settles; a rejection means that
   * promised durability was not reached, and rejects the emit.
   */
  settled?(event: NexusEvent): Promise<void> | undefined
}

/** Runs after the handlers and the recorder of one event type; the emit waits for it. */
export type AfterDispatchHook = (event: NexusEvent) => Promise<void>
