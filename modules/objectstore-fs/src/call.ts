import type { Progress } from '@nexus/objectstore'

/** One running call, as the operations on the bucket see it. */
export interface Call {
  /** Fires when the caller gave up. */
  readonly signal: AbortSignal
  /** Whether other calls have waited for long enough by now: on a slow disk one chunk takes so long. */
  readonly turnIsOver: boolean
  /**
   * Reports totals, lets other calls and messages have their turn, and does not run far ahead of what the caller has
   * heard: an abort on a report stops the call close to it.
   *
   * @throws the signal's reason once it has fired
   */
  progress(totals: Progress): Promise<void>
}
